"""The entry point: determinism, idle cost, and the data plane driven end to end."""

import pytest
from tests.support.consensus_cluster import CLUSTER, ScriptedCluster, elected
from tests.support.interpreter import run_python
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus.data_plane import DataPlane
from borzoi.consensus.frames import decode_frame, encode_frame
from borzoi.consensus.machine import StateMachine
from borzoi.consensus.messages import Operation
from borzoi.consensus.partition_ops import PartitionCommand, encode_command, propose_batch
from borzoi.records.message import Message, encode_messages

PROGRAM = """
import hashlib
from tests.support.consensus_cluster import ScriptedCluster
cluster = ScriptedCluster()
cluster.elect()
digest = hashlib.sha256()
for number in range(20):
    cluster.request(b"%d" % number, number=number)
cluster.crash(cluster.primary().replica_id)
cluster.elect()
cluster.tick(100)
for effect in cluster.outputs:
    digest.update(repr(effect).encode())
print(digest.hexdigest())
"""


def test_the_hash_seed_of_the_process_changes_nothing():
    digests = {
        run_python("-c", PROGRAM, env={"PYTHONHASHSEED": seed}, check=True).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(digests) == 1


def test_ticks_may_be_skipped_up_to_the_next_deadline():
    _, primary = elected()
    wait = primary.ticks_until_deadline()
    assert wait >= 1
    primary.tick(wait - 1)
    assert primary.take_effects() == []


def test_every_frame_of_a_life_survives_its_bytes():
    cluster = ScriptedCluster(checkpoint_interval=8, retain_ops=2)
    frames = []

    def through_bytes(source, target, header):
        frames.append(header)
        return False

    cluster.drop = through_bytes
    original = cluster.deliver

    def deliver() -> bool:
        if cluster.network:
            _, _, header, body = cluster.network[0]
            again = decode_frame(encode_frame(header, body), CLUSTER, 3)
            assert again[0][1:] == header[1:]
            assert again[1] == body
        return original()

    cluster.deliver = deliver  # type: ignore[method-assign]
    old = cluster.elect()
    for number in range(20):
        cluster.request(b"%d" % number, number=number)
    cluster.crash(old.replica_id)
    cluster.elect()
    cluster.wipe(old.replica_id)
    cluster.start(old.replica_id, wiped=True)
    cluster.tick(150)
    assert len({type(frame) for frame in frames}) >= 12


def data_plane() -> StateMachine:
    return DataPlane(
        control_commit=lambda: 100, new_ids=lambda count: b"i" * 16 * count, segment_bytes=200
    )


def data_cluster() -> ScriptedCluster:
    cluster, _ = elected(machine=data_plane, checkpoint_interval=6, retain_ops=2)
    return cluster


def send(cluster: ScriptedCluster, *payloads: bytes, settle: bool = True) -> None:
    run = encode_messages([Message(payload=payload) for payload in payloads])[1]
    body = propose_batch(5, 3, len(payloads), run)
    cluster.request(body, operation=Operation.SEND_MESSAGES.value, settle=settle)


def segments(cluster: ScriptedCluster, replica: int) -> list[bytes]:
    machine = cluster.machines[replica]
    assert isinstance(machine, DataPlane)
    return [bytes(s.log + s.index) for s in machine.partitions[5, 3].segments]


def test_segments_are_byte_identical_on_every_replica_after_failovers():
    cluster = data_cluster()
    for _ in range(3):
        for number in range(3):
            send(cluster, b"%d" % number, b"second", settle=False)
        cluster.settle()
        old = cluster.primary()
        cluster.crash(old.replica_id)
        cluster.elect()
        send(cluster, b"after")
        cluster.start(old.replica_id)
        cluster.tick(60)
    assert len(segments(cluster, 0)) > 2
    assert segments(cluster, 0) == segments(cluster, 1) == segments(cluster, 2)


def test_commands_on_partitions_go_through_the_log_too():
    cluster = data_cluster()
    send(cluster, b"a", b"b")
    purge = encode_command(PartitionCommand(5, 3, 1))
    cluster.request(purge, operation=Operation.PURGE_PARTITION.value)
    cluster.request(b"short", operation=Operation.PURGE_PARTITION.value)
    assert [reply.status for reply in cluster.replies()] == [0, 0, 3]


def test_offsets_minted_from_the_applied_end_collide_in_the_pipeline():
    plant_bugs(stamped_from_applied_end=True)
    cluster, _ = elected(machine=data_plane)
    send(cluster, b"a", settle=False)
    send(cluster, b"b", settle=False)
    with pytest.raises(Exception, match="does not continue"):
        cluster.settle()


def test_an_op_that_waits_for_the_control_plane_is_acknowledged_and_applied_later():
    """X1."""
    control = {"commit": 0}
    cluster = ScriptedCluster(
        machine=lambda: DataPlane(
            control_commit=lambda: control["commit"], new_ids=lambda count: b"i" * 16 * count
        )
    )
    primary = cluster.elect()
    send(cluster, b"a")
    assert (primary.commit_max, primary.commit_min) == (2, 1)
    control["commit"] = 3
    for replica in sorted(cluster.replicas):
        cluster.replicas[replica].on_machine_ready()
        cluster.execute(replica)
    assert cluster.replies()[-1].status == 0


def test_what_a_node_shows_of_a_group():
    cluster, primary = elected(checkpoint_interval=4)
    for number in range(5):
        cluster.request(b"x", number=number)
    assert primary.is_leader
    assert primary.checkpoint_checksum == primary.checkpoint_checksums[4]
