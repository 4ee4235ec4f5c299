import pytest

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.quorum import Quorums, members, quorums


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (1, (1, 1, 1)),
        (2, (2, 2, 1)),
        (3, (2, 2, 2)),
        (4, (2, 3, 3)),
        (5, (3, 3, 3)),
        (6, (3, 4, 4)),
        (7, (3, 5, 5)),
    ],
)
def test_quorums_are_those_of_the_table(replicas, expected):
    assert quorums(replicas) == Quorums(*expected)


@pytest.mark.parametrize("replicas", range(1, 8))
def test_a_commit_and_a_view_change_always_share_a_replica(replicas):
    replication, view_change, nack = quorums(replicas)
    assert replication + view_change > replicas
    assert replication + nack > replicas


@pytest.mark.parametrize("replicas", [0, 8])
def test_other_sizes_are_refused(replicas):
    with pytest.raises(InvariantError):
        quorums(replicas)


def test_a_bitset_counts_its_members():
    assert members(0b10110) == 3
