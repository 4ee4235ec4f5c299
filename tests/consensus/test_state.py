import pytest
from tests.support.consensus_cluster import client_id, elected, isolated_primary
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import Operation
from borzoi.consensus.state import Status
from borzoi.consensus.superblock import Superblock


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
    _, primary = elected()
    primary.check()
    for name, value in broken.items():
        setattr(primary, name, value)
    with pytest.raises(InvariantError):
        primary.check()


def test_the_suffix_runs_from_commit_to_head():
    cluster, primary = elected()
    cluster.isolate(primary.replica_id)
    cluster.request(b"x")
    cluster.request(b"y")
    assert [header.op for header in primary.suffix()] == [1, 2, 3]
    assert primary.status == Status.NORMAL


def test_one_superblock_write_is_in_flight_and_the_next_carries_the_newest_values():
    """S2: what becomes durable is what was written."""
    cluster, primary = elected()
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


@pytest.mark.parametrize("forgets", [False, True])
def test_m2_the_commit_is_durable_with_the_suffix(forgets):
    plant_bugs(commit_not_persisted=forgets)
    cluster, primary = elected()
    for number in range(5):
        cluster.request(b"x", number=number)
    primary.step_down()
    cluster.execute(primary.replica_id)
    cluster.sync(primary.replica_id)
    disk = cluster.disks[primary.replica_id].superblock
    assert isinstance(disk, Superblock)
    assert disk.commit == (0 if forgets else 6)


@pytest.mark.parametrize("forgets", [False, True])
def test_p9_the_view_on_disk_is_the_one_acted_in(forgets):
    """Seen elsewhere: the view was kept in memory only."""
    plant_bugs(view_not_persisted=forgets)
    cluster, primary = elected()
    disk = cluster.disks[primary.replica_id].superblock
    assert isinstance(disk, Superblock)
    assert (disk.view == primary.view) is not forgets


@pytest.mark.parametrize("smaller", [False, True])
def test_quorums_are_what_they_should_be_and_one_less_is_a_planted_bug(smaller):
    cluster, _ = isolated_primary(replication_quorum_minus_one=smaller)
    assert bool(cluster.replies()) is smaller
    plant_bugs(view_change_quorum_minus_one=smaller)
    other, leader = elected()
    alone = next(r for r in other.replicas if r != leader.replica_id)
    other.isolate(alone)
    other.tick(300)
    assert (other.replicas[alone].view > leader.view) is smaller


@pytest.mark.parametrize("executes", [False, True])
def test_a_duplicate_is_executed_only_with_the_bug(executes):
    plant_bugs(duplicate_request_executed=executes)
    cluster, primary = elected()
    ada = client_id(1)
    cluster.request(b"", client=ada, operation=Operation.REGISTER.value)
    for _ in range(2):
        cluster.request(b"x", client=ada, number=1)
    assert cluster.applied(primary.replica_id).count(b"x") == 1 + executes
