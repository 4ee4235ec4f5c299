"""Repair by identity, from any replica, whatever its status (R1)."""

import pytest
from tests.support.consensus_cluster import CLUSTER, ScriptedCluster, elected
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus import repair
from borzoi.consensus.effects import ReadJournal, Send
from borzoi.consensus.frames import EMPTY_BODY, encode_headers, seal_prepare
from borzoi.consensus.messages import (
    UNSEALED,
    Command,
    Headers,
    Prepare,
    RequestPrepare,
)
from borzoi.consensus.state import JOURNAL_WRITES_MAX, Held, JournalEntry


def lagging_cluster(ops: int = 20, **bugs: bool) -> tuple[ScriptedCluster, int]:
    plant_bugs(**bugs)
    cluster, primary = elected()
    lagging = next(replica for replica in cluster.replicas if replica != primary.replica_id)
    cluster.isolate(lagging)
    for number in range(ops):
        cluster.request(b"%d" % number, number=number)
    return cluster, lagging


def request_prepare(op: int, identity: bytes, replica: int = 0) -> RequestPrepare:
    # fmt: off
    return RequestPrepare(
        UNSEALED, EMPTY_BODY, CLUSTER, 256, 0, 1, Command.REQUEST_PREPARE.value, replica, 0, op,
        identity,
    )
    # fmt: on


def test_a_lagging_backup_learns_the_head_then_headers_then_bodies():
    cluster, lagging = lagging_cluster(300)
    cluster.heal()
    cluster.tick(120)
    live = cluster.replicas[lagging]
    assert live.commit_min == cluster.primary().commit_min
    for op in range(1, live.op + 1):
        assert live.canon[op].parent == live.canon[op - 1].checksum


def test_answers_come_from_any_peer_and_a_dead_one_is_not_asked_for_ever():
    """Seen elsewhere: a dead repair peer retried for ever."""
    cluster, lagging = lagging_cluster()
    silent = cluster.primary().replica_id
    cluster.drop = lambda source, target, header: (
        source == silent and target == lagging and isinstance(header, Prepare | Headers)
    )
    cluster.tick(120)
    assert cluster.replicas[lagging].commit_min >= 21


def test_a_peer_without_exactly_that_body_stays_silent():
    cluster, _ = lagging_cluster(3)
    primary = cluster.primary()
    primary.take_effects()
    primary.on_frame(request_prepare(2, b"another prepare!"), b"")
    assert primary.take_effects() == []
    primary.entries[primary.canon[2].checksum].held = Held.FAULTY
    primary.on_frame(request_prepare(2, primary.canon[2].checksum), b"")
    assert primary.take_effects() == []


def test_the_same_number_is_not_the_same_prepare():
    """A primary that lost its view holds another op 2 than the one the others committed."""
    cluster, old = elected()
    cluster.isolate(old.replica_id)
    cluster.request(b"never acknowledged")
    divergent = old.canon[2].checksum
    cluster.tick(400)
    cluster.request(b"committed", at=cluster.primary().replica_id)
    cluster.heal()
    cluster.tick(100)
    assert old.canon[2].checksum == cluster.committed[2] != divergent
    assert old.commit_min == cluster.primary().commit_min


@pytest.mark.parametrize("by_number", [False, True])
def test_an_answer_with_another_identity_is_not_taken(by_number):
    cluster, lagging = lagging_cluster(6, repair_by_op_number=by_number)
    live = cluster.replicas[lagging]
    cluster.drop = lambda source, target, header: target == lagging and isinstance(header, Prepare)
    cluster.tick(40)
    assert live.op == cluster.primary().op
    known = live.canon[3]
    impostor = known._replace(checksum=b"another prepare!", timestamp=1)
    live.on_frame(impostor, b"body")
    assert (live.canon[3] == impostor) is by_number


def test_repairing_an_old_op_leaves_the_head_alone():
    cluster, lagging = lagging_cluster(10)
    cluster.heal()
    cluster.tick(100)
    cluster.crash(cluster.primary().replica_id)
    new = cluster.elect()
    cluster.request(b"after")
    for op in range(1, new.op + 1):
        assert new.canon[op].parent == new.canon[op - 1].checksum
    assert cluster.replies()[-1].status == 0
    assert lagging in cluster.replicas


def test_an_unreadable_record_met_while_answering_is_repaired_here():
    cluster, primary = elected(pipeline_max=8)
    for number in range(80):
        cluster.request(b"%d" % number, number=number)
    assert primary.entries[primary.canon[2].checksum].body is None
    cluster.disks[primary.replica_id].rot_body(2)
    identity = primary.canon[2].checksum
    other = next(replica for replica in cluster.replicas if replica != primary.replica_id)
    primary.on_frame(request_prepare(2, identity, other), b"")
    cluster.execute(primary.replica_id)
    assert primary.entries[identity].held == Held.FAULTY
    cluster.tick(10)
    assert primary.entries[identity].held == Held.DURABLE


def test_headers_that_do_not_chain_are_not_taken():
    cluster, lagging = lagging_cluster(12)
    live = cluster.replicas[lagging]
    cluster.drop = lambda source, target, header: (
        isinstance(header, Prepare | Headers) and target == lagging
    )
    cluster.tick(40)
    assert live.op == cluster.primary().op
    unknown = max(op for op in range(1, live.op) if op not in live.canon)
    true = cluster.primary().canon[unknown]
    answer = Headers(*true[:6], Command.HEADERS.value, 1, 0)
    live.on_frame(answer, encode_headers([seal_prepare(true._replace(timestamp=1))]))
    assert unknown not in live.canon
    live.on_frame(answer, b"no headers")
    live.on_frame(answer, encode_headers([true]))
    assert live.canon[unknown] == true


@pytest.mark.parametrize("uncanonical", [False, True])
def test_n7_a_commit_number_says_nothing_about_an_entry_that_is_not_canonical(uncanonical):
    plant_bugs(apply_uncanonical=uncanonical)
    cluster, old = elected(pipeline_max=2)
    cluster.isolate(old.replica_id)
    cluster.request(b"never acknowledged")
    cluster.tick(400)
    for number in range(8):
        cluster.request(b"committed", number=number, at=cluster.primary().replica_id)
    cluster.drop = lambda source, target, header: (
        target == old.replica_id and isinstance(header, Prepare | Headers)
    )
    if uncanonical:
        with pytest.raises(AssertionError, match="op 2 was applied with two contents"):
            cluster.tick(200)
    else:
        cluster.tick(200)
        assert old.commit_min == 1


def test_a_read_for_an_entry_that_is_gone_is_forgotten():
    cluster, live = elected(1)
    for number in range(80):
        cluster.request(b"%d" % number, number=number)
    identity = live.canon[2].checksum
    live.on_frame(request_prepare(2, identity), b"")
    (read,) = [e for e in live.take_effects() if isinstance(e, ReadJournal)]
    entry = live.entries.pop(identity)
    live.on_read(read.token, b"0")
    assert live.take_effects() == []
    live.entries[identity] = entry
    live.on_frame(request_prepare(2, identity), b"")
    (read,) = [e for e in live.take_effects() if isinstance(e, ReadJournal)]
    entry.held = Held.FAULTY
    live.on_read(read.token, None)
    assert entry.held == Held.FAULTY
    repair.ask(live)
    assert live.take_effects() == []


def test_by_number_a_peer_would_answer_with_whatever_it_has():
    cluster, _ = lagging_cluster(3, repair_by_op_number=True)
    primary = cluster.primary()
    primary.take_effects()
    primary.on_frame(request_prepare(2, b"another prepare!"), b"")
    primary.on_frame(request_prepare(999, b"another prepare!"), b"")
    assert len(primary.take_effects()) == 1


def test_a_kept_early_prepare_that_is_next_needs_no_request():
    cluster, lagging = lagging_cluster(3)
    live = cluster.replicas[lagging]
    live.take_effects()
    live.future[live.op + 1] = (live.canon[live.op], b"")
    repair.ask(live)
    assert live.take_effects() == []


def test_a_header_is_looked_for_in_the_own_journal_before_peers_are_asked():
    """Found by a seed: two replicas, each with holes where the other could not help."""
    cluster, lagging = lagging_cluster(8)
    live = cluster.replicas[lagging]
    primary = cluster.primary()
    body = b"%d" % 4
    held = primary.canon[6]
    live.entries[held.checksum] = JournalEntry(held, Held.DURABLE, body)
    cluster.drop = lambda source, target, header: (
        target == lagging and isinstance(header, Headers | Prepare)
    )
    cluster.tick(40)
    assert 6 not in live.canon
    live.canon[7] = primary.canon[7]
    repair.begin(live)
    assert live.canon[6] == held
    assert 5 not in live.canon


def test_nothing_is_repaired_before_a_log_is_decided():
    _, primary = elected()
    primary.step_down()
    primary.take_effects()
    del primary.entries[primary.canon[1].checksum]
    repair.begin(primary)
    assert primary.take_effects() == []


def test_a_slow_disk_gets_no_more_bodies_and_no_peer_is_suspected():
    """Bodies that were asked for faster than they are written would pile up in memory."""
    cluster, lagging = lagging_cluster()
    live = cluster.replicas[lagging]
    cluster.drop = lambda source, target, header: target == lagging and isinstance(header, Prepare)
    cluster.tick(60)
    assert repair.lowest_missing(live) is not None
    entry = next(iter(live.entries.values()))
    waiting = list(live.journal_writes)
    live.journal_writes.extend((-1, entry) for _ in range(JOURNAL_WRITES_MAX))
    live.repairing.clear()
    live.take_effects()
    rounds = live.repair_rounds
    for _ in range(2 * repair.ROUNDS_BEFORE_TRANSFER):
        assert not repair.on_timer(live)
    repair.ask(live)
    asked = [effect.header for effect in live.take_effects() if isinstance(effect, Send)]
    assert not [header for header in asked if isinstance(header, RequestPrepare)]
    assert live.repair_rounds == rounds
    live.journal_writes.clear()
    live.journal_writes.extend(waiting)
    cluster.heal()
    cluster.tick(120)
    assert live.commit_min == cluster.primary().commit_min


def test_a_primary_that_cannot_read_a_lost_op_steps_down():
    """Found by a seed: it led for ever with acks of all replicas, and answered no client."""
    cluster, primary = elected()
    cluster.request(b"x")
    entry = primary.entries[primary.canon[primary.op].checksum]
    entry.held, entry.body = Held.FAULTY, None
    primary.commit_min -= 1
    cluster.drop = lambda source, target, header: isinstance(header, RequestPrepare)
    view = primary.view
    primary.recompute_durable_prefix()
    repair.begin(primary)
    cluster.tick(300)
    assert primary.view == view + 1
    assert not primary.is_primary
