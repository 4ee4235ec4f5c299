"""A replica that was away for longer than the journals reach back (K2)."""

from itertools import pairwise

import pytest
from tests.support.consensus_cluster import ScriptedCluster, client_id, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import new_view, state_transfer, view_change
from borzoi.consensus.checkpoint import Checkpoint
from borzoi.consensus.effects import ReadCheckpoint, Send, TruncateJournal
from borzoi.consensus.messages import (
    Header,
    Operation,
    Prepare,
    PrepareOk,
    RequestStateChunk,
    RequestStateTransfer,
    StateChunk,
    StateTransferTarget,
)
from borzoi.consensus.replica import Replica
from borzoi.consensus.state import CheckpointWrite, Status
from borzoi.consensus.superblock import Superblock
from borzoi.consensus.timeouts import Timer

ADA = client_id(1)


def far_behind(**bugs: bool) -> tuple[ScriptedCluster, int]:
    """One backup slept while 60 ops were committed, checkpointed and truncated."""
    plant_bugs(**bugs)
    cluster, primary = elected(checkpoint_interval=8, retain_ops=4)
    sleeper = next(replica for replica in cluster.replicas if replica != primary.replica_id)
    cluster.request(b"", client=ADA, operation=Operation.REGISTER.value)
    cluster.crash(sleeper)
    for number in range(1, 61):
        cluster.request(b"payload %d" % number, client=ADA, number=number)
    assert min(record[0].op for record in cluster.disks[primary.replica_id].records) > 40
    return cluster, sleeper


def same_state(cluster: ScriptedCluster, replica: int) -> bool:
    return cluster.applied(replica) == cluster.applied(cluster.primary().replica_id)


def test_the_sleeper_gets_a_checkpoint_and_then_the_tail():
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    cluster.tick(150)
    assert live.checkpoint_op >= 56
    assert live.commit_min == cluster.primary().commit_min
    assert same_state(cluster, sleeper)
    assert live.client_table.encode() == cluster.primary().client_table.encode()
    disk = cluster.disks[sleeper].superblock
    assert isinstance(disk, Superblock)
    assert disk.checkpoint_op == live.checkpoint_op
    cluster.crash(sleeper)
    cluster.start(sleeper)
    cluster.tick(60)
    assert same_state(cluster, sleeper)


def test_a_leader_with_a_transferred_checkpoint_continues_after_its_last_timestamp():
    """Found by a seed: the new leader's clock was behind, and its log ended with the checkpoint."""
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    live.last_timestamp = 0
    cluster.drop = lambda source, target, header: isinstance(header, Prepare)
    cluster.tick(150)
    assert live.checkpoint_op >= 56
    assert live.last_timestamp == live.manifest.header.timestamp


def test_no_ack_while_transferring_nor_before_the_superblock_names_the_checkpoint():
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    acks: list[int] = []

    def watch(source: int, target: int, header: Header) -> bool:
        if source == sleeper and isinstance(header, PrepareOk):
            acks.append(header.op)
        return isinstance(header, StateChunk)

    cluster.drop = watch
    cluster.tick(60)
    assert live.transfer is not None
    acks.clear()
    cluster.request(b"more", client=ADA, number=61)
    cluster.tick(20)
    assert acks == []


def test_a_silent_peer_is_given_up_for_another():
    cluster, sleeper = far_behind()
    silent = cluster.primary().replica_id
    cluster.drop = lambda source, target, header: (
        isinstance(header, StateTransferTarget | StateChunk) and source == silent
    )
    live = cluster.start(sleeper)
    cluster.tick(700)
    assert same_state(cluster, sleeper)
    assert live.status == Status.NORMAL


def test_after_five_stalls_the_next_session_is_always_with_another_peer():
    cluster, sleeper = far_behind()
    asked: dict[bytes, int] = {}

    def silence(source: int, target: int, header: Header) -> bool:
        if isinstance(header, RequestStateTransfer):
            asked.setdefault(header.nonce, target)
        return isinstance(header, RequestStateTransfer)

    cluster.drop = silence
    cluster.start(sleeper)
    cluster.tick(5000)
    peers = list(asked.values())
    assert len(peers) > 8
    assert all(peer != next_peer for peer, next_peer in pairwise(peers)), peers


def test_lost_offers_and_chunks_are_asked_again():
    cluster, sleeper = far_behind()
    lost = {"count": 0}

    def lossy(source: int, target: int, header: Header) -> bool:
        if isinstance(header, StateTransferTarget | StateChunk) and lost["count"] < 6:
            lost["count"] += 1
            return True
        return False

    cluster.drop = lossy
    cluster.start(sleeper)
    cluster.tick(500)
    assert same_state(cluster, sleeper)


def test_a_session_outlives_the_view_it_began_in_and_is_installed_in_the_next():
    """Found by a seed: views that waited for its acks ended before each transfer did."""
    cluster, live = pulling()
    assert live.transfer is not None
    nonce, before = live.transfer.nonce, live.commit_min
    cluster.drop = lambda source, target, header: (
        not (isinstance(header, RequestStateChunk | StateChunk))
    )
    view_change.enter_view(live, live.view + 1)
    cluster.execute(live.replica_id)
    cluster.tick(100)
    assert live.transfer is not None
    assert (live.transfer.nonce, live.transfer.is_complete()) == (nonce, True)
    assert (live.status, live.commit_min) == (Status.VIEW_CHANGE, before)
    cluster.drop = lambda source, target, header: isinstance(header, RequestStateTransfer)
    cluster.elect()
    cluster.tick(100)
    assert same_state(cluster, live.replica_id)


def test_a_view_that_ends_while_the_files_are_written_costs_nothing():
    _, live = pulling()
    transfer, checkpoint = live.transfer, announced_to(live)
    view_change.enter_view(live, live.view + 1)
    state_transfer.install(live, checkpoint)
    assert live.transfer is transfer
    assert live.timers.is_running(Timer.STATE_TRANSFER_STALL)


def test_outside_of_a_view_a_silent_peer_is_not_replaced():
    cluster, live = pulling()
    cluster.drop = lambda source, target, header: True
    view_change.enter_view(live, live.view + 1)
    cluster.tick(900, only=[live.replica_id])
    assert (live.status, live.transfer) == (Status.VIEW_CHANGE, None)


def test_a_leader_has_nothing_to_fetch():
    _, live = pulling()
    live.view = live.log_view = live.durable_view = live.durable_log_view = 3 + live.replica_id
    live.op = live.commit_max = live.durable_prefix = live.commit_min
    new_view.become_primary(live)
    assert live.transfer is None
    assert not live.timers.is_running(Timer.STATE_TRANSFER_STALL)


def test_an_offer_older_than_what_is_known_is_refused():
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    asked: list[RequestStateTransfer] = []

    def keep(source: int, target: int, header: Header) -> bool:
        if isinstance(header, RequestStateTransfer):
            asked.append(header)
            return True
        return False

    cluster.drop = keep
    cluster.tick(60)
    transfer = live.transfer
    assert transfer is not None
    primary = cluster.primary()
    primary.on_frame(asked[-1]._replace(nonce=transfer.nonce), b"")
    offers = [
        (effect.header, effect.body)
        for effect in primary.take_effects()
        if isinstance(effect, Send) and isinstance(effect.header, StateTransferTarget)
    ]
    header, body = offers[0]
    live.on_frame(header._replace(commit_max=3), body)
    assert live.transfer is None


def test_a_replica_that_is_not_caught_up_offers_nothing():
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    asked = RequestStateTransfer(*live.canon[0][:6], 22, 1, bytes(16), 0)
    live.take_effects()
    live.on_frame(asked, b"")
    answers = [e.header for e in live.take_effects() if isinstance(e, Send)]
    assert any(isinstance(a, StateTransferTarget) and not a.available for a in answers)


@pytest.mark.parametrize("keeps", [False, True])
def test_no_stale_record_survives_above_the_installed_floor(keeps):
    cluster, sleeper = far_behind(transfer_keeps_stale_journal=keeps)
    live = cluster.start(sleeper)
    cluster.tick(150)
    stale = [e for e in live.entries.values() if e.header.op <= live.checkpoint_op - 20]
    assert bool(stale) is keeps


@pytest.mark.parametrize("early", [False, True])
def test_the_journal_is_truncated_only_under_a_durable_checkpoint(early):
    plant_bugs(truncate_before_checkpoint_durable=early)
    cluster, primary = elected(checkpoint_interval=8, retain_ops=1)
    cluster.stuck_disks = set()
    for number in range(30):
        cluster.request(b"x", number=number)
        for replica, effect in cluster.outputs:
            assert not isinstance(effect, TruncateJournal), replica
        disk = cluster.disks[primary.replica_id]
        superblock = disk.superblock
        assert isinstance(superblock, Superblock)
        lowest = min(record[0].op for record in disk.records)
        assert lowest <= superblock.checkpoint_op + 1


def test_strange_requests_and_chunks_change_nothing():
    cluster, sleeper = far_behind()
    primary = cluster.primary()
    primary.take_effects()
    chunk = RequestStateChunk(*primary.canon[primary.op][:6], 24, sleeper, bytes(16), 0, 0, 16, 0)
    primary.on_frame(chunk, b"")
    primary.serving[sleeper] = (bytes(16), primary.checkpoint_op, primary.manifest)
    primary.on_frame(chunk._replace(artifact=99), b"")
    primary.on_frame(chunk._replace(length=1 << 30), b"")
    assert primary.take_effects() == []
    primary.on_frame(chunk, b"")
    (read,) = [e for e in primary.take_effects() if isinstance(e, ReadCheckpoint)]
    primary.on_checkpoint_read(read.token, None)
    assert primary.take_effects() == []
    header = primary.canon[primary.op]
    primary.on_frame(StateChunk(*header[:6], 25, 1, bytes(16), 0, 0, 0), b"")
    primary.on_frame(StateTransferTarget(*header[:6], 23, 1, bytes(16), 0, 0, 0, 1, 0), b"")
    state_transfer.on_stall_timer(primary)
    assert primary.take_effects() == []


def pulling() -> tuple[ScriptedCluster, Replica]:
    """The sleeper has accepted an offer and waits for its first chunk."""
    cluster, sleeper = far_behind()
    live = cluster.start(sleeper)
    cluster.drop = lambda source, target, header: isinstance(header, StateChunk)
    for _ in range(200):
        cluster.tick(1)
        if live.transfer is not None and live.transfer.manifest is not None:
            return cluster, live
    raise AssertionError("no transfer began")


def announced_to(live: Replica) -> Checkpoint:
    """What it is pulling, as if all of it had arrived."""
    assert live.transfer is not None
    assert live.transfer.manifest is not None
    return Checkpoint(live.transfer.manifest, ())


def test_chunks_that_are_not_what_the_manifest_promised_end_the_session():
    cluster, live = pulling()
    transfer = live.transfer
    assert transfer is not None
    header = live.canon[live.op]
    for _ in range(1000):
        if live.transfer is not transfer:
            break
        for wanted in transfer.outstanding():
            chunk = StateChunk(
                *header[:6], 25, 1, transfer.nonce, wanted.offset, 0, wanted.artifact
            )
            live.on_frame(chunk, b"short")
            live.on_frame(chunk, b"x" * wanted.length)
    assert live.transfer is None
    cluster.execute(live.replica_id)
    cluster.heal()
    cluster.tick(200)
    assert same_state(cluster, live.replica_id)


def test_a_transfer_that_arrives_after_the_world_moved_on_is_dropped():
    _, live = pulling()
    checkpoint = announced_to(live)
    before = live.commit_min
    live.commit_min = live.commit_max = live.op = 1000
    state_transfer.install(live, checkpoint)
    assert live.transfer is None
    live.commit_min, live.commit_max = before, 1000
    state_transfer.install(live, checkpoint)
    assert live.commit_min == before


def test_while_a_transfer_is_being_written_no_other_begins():
    _, live = pulling()
    live.checkpoint_write = CheckpointWrite(1, announced_to(live), is_transfer=True)
    live.transfer = None
    state_transfer.consider(live, repair_is_stuck=True)
    assert live.transfer is None
