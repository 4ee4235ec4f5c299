import msgspec
import pytest
from tests.support.consensus_cluster import ScriptedCluster, client_id, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import checkpointing, state_transfer
from borzoi.consensus.checkpointing import (
    decode_checksums,
    decode_positions,
    encode_checksums,
    encode_positions,
)
from borzoi.consensus.config import Config
from borzoi.consensus.effects import Refusal, WriteCheckpoint, WriteJournal
from borzoi.consensus.messages import Operation, RequestPrepare
from borzoi.consensus.state import Held

ADA = client_id(1)


def test_positions_and_checksums_survive_the_wire():
    positions = [(0, 5, 4), (7, 9, 8)]
    assert decode_positions(encode_positions(positions) + b"rest") == tuple(positions)
    assert len(encode_positions(positions)) == 48
    checksums = [(0, 5, b"c" * 16)]
    assert decode_checksums(encode_checksums(checksums) + b"rest") == tuple(checksums)
    assert len(encode_checksums(checksums)) == 32


def test_checkpoints_are_equal_on_every_replica_and_cover_the_log():
    cluster, _ = elected(checkpoint_interval=5, retain_ops=3)
    for number in range(20):
        cluster.request(b"%d" % number, number=number)
    cluster.tick(20)
    newest = [max(disk.checkpoints) for disk in cluster.disks]
    assert newest == [20, 20, 20]
    assert len({disk.checkpoints[20] for disk in cluster.disks}) == 1
    assert all(min(r[0].op for r in disk.records) >= 10 for disk in cluster.disks)
    assert all(len(disk.checkpoints) <= 2 for disk in cluster.disks)


@pytest.mark.parametrize("forgets", [False, True])
def test_p13_a_retry_after_checkpoint_and_restart_is_not_executed_again(forgets):
    plant_bugs(client_table_not_in_checkpoint=forgets)
    cluster, _ = elected(checkpoint_interval=4, retain_ops=1)
    cluster.request(b"", client=ADA, operation=Operation.REGISTER.value)
    cluster.request(b"once", client=ADA, number=1)
    for number in range(10):
        cluster.request(b"other", number=number)
    cluster.tick(20)
    cluster.crash(0, 1, 2)
    for replica in range(3):
        cluster.start(replica)
    new = cluster.elect()
    cluster.request(b"once", client=ADA, number=1)
    status = cluster.replies()[-1].status
    assert status == (Refusal.UNKNOWN_SESSION if forgets else 0)
    assert cluster.applied(new.replica_id).count(b"once") == 1


def test_one_checkpoint_is_written_at_a_time():
    _, live = elected(1, checkpoint_interval=2)
    written: list[WriteCheckpoint] = []
    for number in range(12):
        live.on_request(bytes(16), number, Operation.CREATE_STREAM.value, b"x")
        while effects := live.take_effects():
            written += [effect for effect in effects if isinstance(effect, WriteCheckpoint)]
            for effect in effects:
                if isinstance(effect, WriteJournal):
                    live.on_written(effect.token)
    assert live.commit_min > 10
    assert len(written) == 1


def test_a_checkpoint_the_superblock_names_counts_as_durable_prefix():
    """Found by a seed: records under the checkpoint were recycled before they were acknowledged."""
    cluster, primary = elected(checkpoint_interval=8, retain_ops=1)
    follower = next(r for r in cluster.replicas.values() if r is not primary)
    for number in range(6):
        cluster.request(b"x", number=number)
    follower.entries[follower.canon[3].checksum].held = Held.FAULTY
    follower.recompute_durable_prefix()
    assert follower.durable_prefix == 2
    cluster.drop = lambda source, target, header: isinstance(header, RequestPrepare)
    for number in range(30):
        cluster.request(b"y", number=number)
    cluster.tick(20)
    assert follower.durable_checkpoint_op >= 24
    assert follower.durable_prefix == primary.op


def configured(
    cluster: ScriptedCluster, *, checkpoint_bytes: int = 0, checkpoint_ticks: int = 0
) -> ScriptedCluster:
    """The same cluster, started again with other rules for its checkpoints."""
    cluster.configs = [
        msgspec.structs.replace(
            config, checkpoint_bytes=checkpoint_bytes, checkpoint_ticks=checkpoint_ticks
        )
        for config in cluster.configs
    ]
    for replica in range(len(cluster.configs)):
        cluster.start(replica)
    return cluster


def test_a_checkpoint_is_due_after_so_many_bytes_of_journal():
    """K1: not only after a number of ops, and at the same op on every replica."""
    cluster = configured(ScriptedCluster(checkpoint_interval=10_000), checkpoint_bytes=4 * 1024)
    cluster.elect()
    for number in range(12):
        cluster.request(b"x" * 700, number=number)
    cluster.tick(20)
    newest = [max(disk.checkpoints) for disk in cluster.disks]
    assert newest == [10, 10, 10]
    assert len({disk.checkpoints[10] for disk in cluster.disks}) == 1


def data_group(ticks: int) -> ScriptedCluster:
    cluster = configured(
        ScriptedCluster(group=1, checkpoint_interval=10_000), checkpoint_ticks=ticks
    )
    cluster.enter_view(3)
    return cluster


def test_a_silent_data_group_covers_its_log_after_a_minute():
    """K3: 60 s, here 50 ticks; nothing new, no new checkpoint."""
    cluster = data_group(50)
    cluster.request(b"x")
    cluster.tick(49)
    assert not any(disk.checkpoints for disk in cluster.disks)
    cluster.tick(2)
    assert [max(disk.checkpoints) for disk in cluster.disks] == [2, 2, 2]
    cluster.tick(200)
    assert [max(disk.checkpoints) for disk in cluster.disks] == [2, 2, 2]


def test_under_load_replicas_take_the_same_checkpoints_by_the_time_of_the_log():
    cluster = data_group(50)
    for number in range(60):
        cluster.request(b"x", number=number)
        cluster.tick(3)
        if number == 20:
            # It forgets when its own timer began; the grid of the log does not care.
            cluster.crash(2)
            cluster.start(2)
            cluster.settle()
    taken = [max(disk.checkpoints) for disk in cluster.disks]
    assert taken[0] == taken[1] == taken[2] > 30
    assert len({disk.checkpoints[taken[0]] for disk in cluster.disks}) == 1


def test_a_group_that_is_pulling_a_checkpoint_takes_none_by_time():
    cluster = data_group(50)
    follower = cluster.replicas[1]
    cluster.request(b"x")
    state_transfer.begin(follower)
    checkpointing.on_timer(follower)
    assert not any(isinstance(effect, WriteCheckpoint) for effect in follower.take_effects())


def test_the_planes_have_their_own_rules():
    control = Config(cluster=bytes(16), replica_id=0, replica_count=3)
    data = msgspec.structs.replace(
        control, group=1, checkpoint_interval=0, checkpoint_bytes=0, checkpoint_ticks=0
    )
    assert (control.checkpoint_interval, control.checkpoint_bytes) == (960, 64 << 20)
    assert (data.checkpoint_bytes, data.checkpoint_ticks) == (256 << 20, 6_000)
