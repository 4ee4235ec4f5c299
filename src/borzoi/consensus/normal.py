"""Normal operation: requests become prepares, acks become commits, commits are applied (4.1)."""

from typing import Final

from borzoi.consensus import checkpointing, repair
from borzoi.consensus.client_table import CachedReply, Verdict
from borzoi.consensus.effects import STATUS_OK, Applied, Refusal
from borzoi.consensus.effects import Reply as ReplyEffect
from borzoi.consensus.frames import EMPTY_BODY, checksum, seal_prepare
from borzoi.consensus.invariants import invariant
from borzoi.consensus.machine import Outcome, Proposal
from borzoi.consensus.messages import (
    HEADER_BYTES,
    U128,
    UNSEALED,
    ZERO,
    Command,
    Commit,
    Operation,
    Prepare,
    PrepareOk,
    Reply,
    Request,
    RequestStartView,
)
from borzoi.consensus.pipeline import LOCAL, InFlight, Queued
from borzoi.consensus.state import BODIES_CACHED, FUTURE_MAX, Held, ReplicaState, Status
from borzoi.consensus.timeouts import Timer

_NOOP: Final = Operation.NOOP.value
_REGISTER: Final = Operation.REGISTER.value
_UNREGISTER: Final = Operation.UNREGISTER.value
_PREPARE: Final = Command.PREPARE.value
_PREPARE_OK: Final = Command.PREPARE_OK.value
_NO_PAYLOAD: Final = Outcome(STATUS_OK, b"")
_UNSTAMPED: Final = frozenset((_NOOP, _REGISTER, _UNREGISTER))
_KNOWN: Final = frozenset(int(operation) for operation in Operation) - {0}
READ_AHEAD: Final = 8
FLAG_WIPED: Final = 1

_REFUSED_BY: Final = {
    Verdict.UNKNOWN_SESSION: Refusal.UNKNOWN_SESSION,
    Verdict.FENCED: Refusal.FENCED,
    Verdict.ALREADY_APPLIED: Refusal.ALREADY_APPLIED,
    Verdict.MISMATCH: Refusal.REQUEST_MISMATCH,
}

# -- requests at the primary --------------------------------------------------------------------


def on_request(r: ReplicaState, queued: Queued) -> None:
    """Accept a request into the queue, or answer it now; an accepted one is never dropped."""
    if not r.is_primary:
        return answer(r, queued, Refusal.NOT_PRIMARY, b"")
    if queued.operation not in _KNOWN:
        return answer(r, queued, Refusal.UNKNOWN_OPERATION, b"")
    if (
        queued.client != ZERO
        and r.pipeline.holds(queued.client, queued.request)
        and not r.bugs.duplicate_request_executed
    ):
        return None
    if not r.pipeline.enqueue(queued):
        return answer(r, queued, Refusal.BUSY, b"")
    return drain_queue(r)


def on_request_frame(r: ReplicaState, header: Request, body: bytes) -> None:
    """A request another replica forwards for its client (C4)."""
    queued = Queued(
        header.client,
        header.request,
        header.operation,
        body,
        header.request_checksum,
        header.user_id,
        header.epoch,
        header.replica,
    )
    on_request(r, queued)


def on_reply_frame(r: ReplicaState, header: Reply, body: bytes) -> None:
    """The primary's answer to a request this node forwarded."""
    r.effects.append(ReplyEffect(header.client, header.request, header.status, body))


def answer(r: ReplicaState, asked: Queued | InFlight, status: int, payload: bytes) -> None:
    """To the waiter here, or to the replica that forwarded the request."""
    if isinstance(asked, Queued):
        client, request, operation = asked.client, asked.request, asked.operation
        op, identity = 0, asked.request_checksum
    else:
        prepare = asked.header
        client, request, operation = prepare.client, prepare.request, prepare.operation
        op, identity = prepare.op, prepare.request_checksum
    if asked.origin is None:
        return
    if asked.origin == LOCAL:
        r.effects.append(ReplyEffect(client, request, status, payload))
        return
    # fmt: off
    r.send(asked.origin, Reply(
        UNSEALED, checksum(payload), r.cluster, HEADER_BYTES + len(payload), r.durable_view,
        r.release, Command.REPLY.value, r.replica_id, identity, ZERO, client, op, r.commit_max,
        0, request, operation, r.group, status,
    ), payload)
    # fmt: on


def accepts_requests(r: ReplicaState) -> bool:
    """N1: everything inherited from earlier views is applied, so table and state are current."""
    return r.commit_min >= r.inherited_op


def drain_queue(r: ReplicaState) -> None:
    """Turn waiting requests into ops while the pipeline has room."""
    pipeline = r.pipeline
    if r.noop_due and not pipeline.is_full():
        r.noop_due = False
        prepare(r, _NOOP, b"", ZERO, 0, ZERO, 0, None, 0)
    while pipeline.queue and not pipeline.is_full() and accepts_requests(r):
        queued = pipeline.dequeue()
        if not _propose(r, queued):
            pipeline.forget(queued.client, queued.request)


def _propose(r: ReplicaState, queued: Queued) -> bool:
    """Preflight, stamping, prepare (N2); false when the request was answered without an op."""
    client, operation = queued.client, queued.operation
    if operation == _REGISTER:
        r.pipeline.registering.add(client)
    elif client != ZERO and not r.bugs.duplicate_request_executed:
        if client in r.pipeline.registering:
            # Its epoch ends with an op that is already on its way; judge it after that op.
            answer(r, queued, Refusal.BUSY, b"")
            return False
        verdict, reply = r.client_table.preflight(
            client, queued.request, queued.request_checksum, queued.epoch
        )
        if verdict is not Verdict.NEW:
            if reply is not None:
                answer(r, queued, reply.status, reply.payload)
            else:
                answer(r, queued, _REFUSED_BY[verdict], b"")
            return False
    body, partition = queued.payload, 0
    if operation not in _UNSTAMPED:
        proposal = Proposal(client, queued.request, operation, body, queued.user_id)
        if r.bugs.stamped_from_applied_end:
            r.machine.forget_prepared()
        stamped = r.machine.stamp(proposal, next_timestamp(r))
        if isinstance(stamped, int):
            answer(r, queued, stamped, b"")
            return False
        body, partition = stamped
    # fmt: off
    prepare(
        r, operation, body, client, queued.request, queued.request_checksum, queued.user_id,
        queued.origin, partition,
    )
    # fmt: on
    return True


def next_timestamp(r: ReplicaState) -> int:
    """Monotonic over the whole log, whatever the wall clock does (4.11)."""
    if r.bugs.timestamp_from_local_clock:
        return r.wall_us
    return max(r.wall_us, r.last_timestamp + 1)


def prepare(
    r: ReplicaState,
    operation: int,
    body: bytes,
    client: U128,
    request: int,
    request_checksum: U128,
    user_id: int,
    origin: int | None,
    partition: int,
) -> None:
    """N3, in one step: head of the log, pipeline, journal, and out to every backup."""
    invariant(r.is_primary, "only a primary prepares")
    op = r.op + 1
    # fmt: off
    header = seal_prepare(Prepare(
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.view, r.release, _PREPARE,
        r.replica_id, client, r.canon[r.op].checksum, request_checksum, op, r.commit_max,
        next_timestamp(r), request, operation, r.group, user_id,
    ))
    # fmt: on
    r.canon[op] = header
    r.op = op
    if not r.pipeline.entries:
        r.timers.start(Timer.PREPARE)
        r.timers.start(Timer.PRIMARY_ABDICATE)
    r.pipeline.append(InFlight(header, 0, origin, partition, r.monotonic_us))
    entry = r.journal(header, body)
    r.broadcast(header, body)
    if entry.held == Held.DURABLE:
        own_acks(r)


# -- acks at the primary ------------------------------------------------------------------------


def own_acks(r: ReplicaState) -> None:
    """The primary's own bit, after its own fsync."""
    if r.advance_durable_prefix() and r.pipeline.entries:
        r.pipeline.acknowledge(r.replica_id, r.durable_prefix)
        advance_commit(r)


def on_prepare_ok(r: ReplicaState, header: PrepareOk, _: bytes) -> None:
    """N6: counts only for this view and for exactly our entry at that op."""
    if header.view != r.view or not r.is_primary:
        return
    ours = r.canon.get(header.op)
    if ours is None or header.op > r.op:
        return
    if ours.checksum != header.prepare_checksum and not r.bugs.ack_by_op_number:
        return
    entries = r.pipeline.entries
    if not entries or header.op < entries[0].op:
        return
    # The contact is as old as the prepare that is acknowledged (4.12); replays cannot renew it.
    prepared_us = entries[min(header.op - entries[0].op, len(entries) - 1)].prepared_us
    if prepared_us > r.contact_us[header.replica]:
        r.contact_us[header.replica] = prepared_us
    r.abdicating = False
    r.timers.start(Timer.PRIMARY_ABDICATE)
    r.pipeline.acknowledge(header.replica, header.op)
    advance_commit(r)


def advance_commit(r: ReplicaState) -> None:
    """Commit the longest prefix a replication quorum holds, then apply and answer."""
    pipeline = r.pipeline
    quorum = r.quorums.replication - r.bugs.replication_quorum_minus_one
    before = r.commit_max
    while pipeline.entries and pipeline.entries[0].acks.bit_count() >= quorum:
        committed = pipeline.pop()
        r.commit_max = committed.op
        r.reply_due[committed.op] = committed
    if r.commit_max == before:
        return
    # M3: without this reset a burst of loss slows every later op.
    if pipeline.entries and not r.bugs.backoff_never_reset:
        r.timers.start(Timer.PREPARE)
    apply_committed(r)
    drain_queue(r)
    if not pipeline.entries:
        r.timers.stop(Timer.PREPARE)
        r.timers.stop(Timer.PRIMARY_ABDICATE)
        broadcast_commit(r)


def on_prepare_timer(r: ReplicaState) -> None:
    """N9: resend to those who have not acked, ever less often while nothing moves."""
    if not r.is_primary or not r.pipeline.entries:
        return
    if r.abdicating:
        r.timers.start(Timer.PREPARE)
        return
    for in_flight in r.pipeline.entries:
        entry = r.entries.get(in_flight.header.checksum)
        for to in r.others:
            if entry is not None and not in_flight.acks >> to & 1:
                repair.send_prepare(r, entry, to)
    r.timers.back_off(Timer.PREPARE)


def monotonic_stamp(r: ReplicaState) -> int:
    """Strictly increasing within a process, so that a replayed heartbeat is recognised (N8)."""
    r.ping_monotonic = max(r.monotonic_us, r.ping_monotonic + 1)
    return r.ping_monotonic


def broadcast_commit(r: ReplicaState) -> None:
    """N8: the commit position, for the control group that of every group."""
    if not r.is_primary or r.abdicating or not r.others:
        return
    body = b""
    if r.elects:
        body = checkpointing.encode_positions(
            [(0, r.commit_max, r.checkpoint_op)]
            + [
                (group, commit, checkpoint_op)
                for group, (view, commit, checkpoint_op, _) in sorted(r.positions.items())
                if view == r.view
            ]
        )
    committed = r.canon.get(r.commit_max)
    # fmt: off
    r.broadcast(Commit(
        UNSEALED, checksum(body) if body else EMPTY_BODY, r.cluster, HEADER_BYTES + len(body),
        r.view, r.release, Command.COMMIT.value, r.replica_id,
        committed.checksum if committed is not None else ZERO, monotonic_stamp(r), r.commit_max,
        r.checkpoint_op, r.group,
    ), body)
    # fmt: on


# -- prepares at a backup -----------------------------------------------------------------------


def on_prepare(r: ReplicaState, header: Prepare, body: bytes) -> None:
    """N4."""
    if header.view > r.view:
        probe(r, header.view)
        return
    op = header.op
    current = header.view == r.view or (
        r.bugs.stale_prepare_accepted and r.canon[r.op].checksum == header.parent
    )
    if current and op > r.op:
        if r.follows_log() and not r.leads_view():
            _take_new(r, header, body)
        return
    if repair.may_repair(r):
        _take_known(r, header, body)


def _take_new(r: ReplicaState, header: Prepare, body: bytes) -> None:
    op = header.op
    if op > r.op + 1:
        if len(r.future) < FUTURE_MAX and not r.bugs.reordered_prepare_dropped:
            r.future[op] = (header, body)
            r.timers.ensure(Timer.REPAIR)
        return
    hear_primary(r)
    while True:
        invariant(
            header.parent == r.canon[r.op].checksum,
            f"op {header.op} of view {header.view} does not continue the log of that view",
        )
        r.op = header.op
        r.canon[r.op] = header
        r.journal(header, body)
        following = r.future.pop(r.op + 1, None) if r.future else None
        if following is None:
            break
        header, body = following
    if r.bugs.ack_before_fsync:
        r.advance_durable_prefix()
        acknowledge(r)
    learn_commit(r, header.commit)


def _take_known(r: ReplicaState, header: Prepare, body: bytes) -> None:
    """By identity only: fills a hole, or repeats what is here and wants an ack again."""
    op = header.op
    canonical = r.canon.get(op)
    if r.bugs.repair_by_op_number and canonical is not None and op > r.commit_min:
        r.canon[op] = canonical = header
    if canonical is None or canonical.checksum != header.checksum:
        return
    if repair.missing_body(r, canonical):
        if op > r.checkpoint_op:
            r.repairing.pop(op, None)
            r.journal(header, body)
            if r.repairing or repair.lowest_missing(r) is not None:
                repair.ask(r)
            apply_committed(r)
    elif op <= r.durable_prefix:
        acknowledge(r, again=True)


def acknowledge(r: ReplicaState, *, again: bool = False) -> None:
    """N5: one cumulative PrepareOk for everything that is fsynced here."""
    bugs = r.bugs
    if r.status != Status.NORMAL or r.leads_view() or r.durable_wiped:
        return
    if not r.log_is_durable() and not bugs.ack_before_superblock:
        return
    # A transferred checkpoint stands for journal records only once the superblock names it.
    if r.transfer is not None or r.durable_checkpoint_op < r.installed_op:
        return
    op = _highest_durable(r) if bugs.ack_skips_hole else r.durable_prefix
    if op == 0 or (op <= r.acked_prefix and not again):
        return
    r.acked_prefix = op
    promise(r)
    acked = r.canon[op]
    # fmt: off
    r.send(r.primary_of(r.view), PrepareOk(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.view, r.release, _PREPARE_OK,
        r.replica_id, acked.parent, acked.checksum, op, r.commit_max, acked.timestamp,
        acked.request, acked.operation, r.group,
    ))
    # fmt: on


def _highest_durable(r: ReplicaState) -> int:
    for op in range(r.op, r.durable_prefix, -1):
        header = r.canon.get(op)
        entry = r.entries.get(header.checksum) if header is not None else None
        if entry is not None and entry.held == Held.DURABLE:
            return op
    return r.durable_prefix


def promise(r: ReplicaState) -> None:
    """Who answers the primary starts no other view while that answer can carry a lease (4.12)."""
    if r.elects:
        r.promise_until = r.timers.now + 2 * r.config.timeouts.lease


def hear_primary(r: ReplicaState) -> None:
    """V4: the primary of this view lives, so this replica does not want to leave it."""
    if r.elects and r.status == Status.NORMAL:
        r.timers.start(Timer.NORMAL_HEARTBEAT)
        if r.votes:
            # Votes of others that were counted here are as old as the silence that just ended.
            r.votes = 0
            r.voting = False
            r.timers.stop(Timer.START_VIEW_CHANGE)


def learn_commit(r: ReplicaState, commit: int) -> None:
    """N7: a commit number of this view; A5: when it is above the head, ask for the log."""
    if commit > r.commit_max:
        r.commit_max = commit
    if r.commit_max > r.op and not r.leads_view():
        r.timers.ensure(Timer.REQUEST_START_VIEW)
    if r.commit_min < r.commit_max:
        apply_committed(r)


def probe(r: ReplicaState, view: int) -> None:
    """V7: somebody works in a newer view; ask its primary instead of electing."""
    if not r.elects or r.is_empty:
        # A data group follows its node's control group (D2) and asks once that has moved.
        return
    if view > r.probe_view:
        r.probe_view = view
        r.timers.start(Timer.REQUEST_START_VIEW)
        request_start_view(r)


def request_start_view(r: ReplicaState) -> None:
    """Ask the primary of the newest view heard of; a wiped replica asks everyone (G2)."""
    target = r.primary_of(max(r.view, r.probe_view))
    # fmt: off
    asked = RequestStartView(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_START_VIEW.value, r.replica_id, r.group, FLAG_WIPED if r.wiped else 0,
        r.incarnation,
    )
    # fmt: on
    if r.wiped:
        r.broadcast(asked)
    elif target != r.replica_id:
        r.send(target, asked)


def on_commit(r: ReplicaState, header: Commit, _: bytes) -> bool:
    """A heartbeat; true when it is the current primary's newest."""
    if header.view > r.view:
        probe(r, header.view)
        return False
    current = header.view == r.view and r.follows_log() and not r.leads_view()
    if not current:
        if r.bugs.stale_commit_accepted and r.follows_log():
            learn_commit(r, min(header.commit, r.op))
        return False
    if header.timestamp_monotonic <= r.heard_monotonic and not r.bugs.old_heartbeat_accepted:
        return False
    r.heard_monotonic = header.timestamp_monotonic
    hear_primary(r)
    r.peer_checkpoint_op = max(r.peer_checkpoint_op, header.checkpoint_op)
    ours = r.canon.get(header.commit)
    invariant(
        ours is None or header.commit_checksum in (ZERO, ours.checksum),
        f"op {header.commit} is committed with another content than here",
    )
    learn_commit(r, header.commit)
    return True


# -- applying -----------------------------------------------------------------------------------


def apply_committed(r: ReplicaState) -> None:
    """N7: in op order, and only entries that are canonical and held."""
    if not r.follows_log():
        return
    while r.commit_min < r.commit_max:
        op = r.commit_min + 1
        header = r.canon.get(op)
        if r.bugs.apply_uncanonical and header is None:
            in_slot = [e.header for e in r.entries.values() if e.header.op == op]
            header = in_slot[0] if in_slot else None
        if header is None:
            break
        entry = r.entries.get(header.checksum)
        if entry is None or entry.held == Held.FAULTY:
            break
        if entry.body is None:
            _read_ahead(r, op)
            break
        if not _apply(r, header, entry.body):
            break
    if r.commit_min < r.commit_max and r.commit_min < r.op:
        r.timers.ensure(Timer.REPAIR)


def _read_ahead(r: ReplicaState, first: int) -> None:
    for op in range(first, min(first + READ_AHEAD, r.commit_max + 1)):
        header = r.canon.get(op)
        entry = r.entries.get(header.checksum) if header is not None else None
        if entry is not None and entry.body is None and entry.held == Held.DURABLE:
            repair.read_for_apply(r, entry)


def _apply(r: ReplicaState, header: Prepare, body: bytes) -> bool:
    """One op into client table and state machine; false when the machine must wait (X1)."""
    op, client, operation = header.op, header.client, header.operation
    outcome = _NO_PAYLOAD
    if operation == _REGISTER:
        outcome = Outcome(STATUS_OK, r.client_table.register(client, op, header.user_id))
        r.pipeline.registering.discard(client)
    elif operation == _UNREGISTER:
        r.client_table.unregister(client)
    elif operation != _NOOP:
        result = r.machine.apply(header, body)
        if result is None:
            return False
        outcome = result
        if client != ZERO:
            reply = CachedReply(header.request, outcome.status, outcome.payload)
            r.client_table.record(client, op, header.request, header.request_checksum, reply)
    r.commit_min = op
    r.effects.append(Applied(op, header, body, outcome.status, outcome.payload))
    waiter = r.reply_due.pop(op, None)
    if waiter is not None and waiter.origin is not None:
        r.pipeline.forget(client, header.request)
        answer(r, waiter, outcome.status, outcome.payload)
    _release_body(r, op - BODIES_CACHED)
    if op % r.config.checkpoint_interval == 0:
        checkpointing.take(r, header)
    return True


def _release_body(r: ReplicaState, op: int) -> None:
    header = r.canon.get(op)
    entry = r.entries.get(header.checksum) if header is not None else None
    if entry is not None and entry.held == Held.DURABLE:
        entry.body = None
