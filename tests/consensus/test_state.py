import pytest

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.state import Status
from borzoi.testing.consensus_cluster import ScriptedCluster


@pytest.mark.parametrize(
    "broken",
    [
        {"checkpoint_op": 99},
        {"commit_min": 99, "commit_max": 99},
        {"commit_max": 0},
        {"log_view": 99},
        {"view": 50},
    ],
)
def test_the_invariants_of_the_state_are_checked_after_every_input(broken):
    cluster = ScriptedCluster()
    primary = cluster.elect()
    primary.check()
    for name, value in broken.items():
        setattr(primary, name, value)
    with pytest.raises(InvariantError):
        primary.check()


def test_the_suffix_runs_from_commit_to_head():
    cluster = ScriptedCluster()
    primary = cluster.elect()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.request(b"y")
    assert [header.op for header in primary.suffix()] == [1, 2, 3]
    assert primary.status == Status.NORMAL


def test_one_superblock_write_is_in_flight_and_the_next_carries_the_newest_values():
    """S2: what becomes durable is what was written."""
    cluster = ScriptedCluster()
    primary = cluster.elect()
    primary.step_down()
    primary.persist()
    first = primary.superblock_write
    assert first is not None
    cluster.execute(primary.replica_id)
    assert primary.durable_view == primary.view - 1
    primary.on_superblock_written(first.token)
    assert primary.durable_view == first.view
    second = primary.superblock_write
    assert second is not None
    assert second.token > first.token
    with pytest.raises(InvariantError):
        primary.on_superblock_written(first.token)
    with pytest.raises(InvariantError):
        primary.on_checkpoint_written(1)
