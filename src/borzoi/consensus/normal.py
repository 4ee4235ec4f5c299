"""A primary in normal operation: requests become prepares, acks become commits (N1-N11, C1)."""

from typing import Final

from borzoi.consensus import checkpointing, repair, view_change
from borzoi.consensus.applying import answer, apply_committed
from borzoi.consensus.client_table import RequestVerdict
from borzoi.consensus.effects import Refusal
from borzoi.consensus.effects import Respond as ReplyEffect
from borzoi.consensus.frames import EMPTY_BODY, checksum, seal_prepare
from borzoi.consensus.invariants import invariant
from borzoi.consensus.machine import AdmittedRequest
from borzoi.consensus.messages import (
    HEADER_BYTES,
    NOOP,
    REGISTER,
    U128,
    UNREGISTER,
    UNSEALED,
    ZERO,
    Command,
    Commit,
    Operation,
    Prepare,
    PrepareOk,
    Reply,
    Request,
)
from borzoi.consensus.pipeline import InFlight, Queued
from borzoi.consensus.state import DURABLE, MICROSECONDS_PER_TICK, ReplicaState
from borzoi.consensus.timeouts import Timer

_PREPARE: Final = Command.PREPARE.value
_COMMIT: Final = Command.COMMIT.value
_new: Final = tuple.__new__
_UNSTAMPED: Final = frozenset((NOOP, REGISTER, UNREGISTER))
_KNOWN: Final = frozenset(int(operation) for operation in Operation) - {0}

_REFUSED_BY: Final = {
    RequestVerdict.UNKNOWN_SESSION: Refusal.UNKNOWN_SESSION,
    RequestVerdict.FENCED: Refusal.FENCED,
    RequestVerdict.ALREADY_APPLIED: Refusal.ALREADY_APPLIED,
    RequestVerdict.MISMATCH: Refusal.REQUEST_MISMATCH,
}

# -- requests at the primary ----------------------------------------------------------------------


def on_request(r: ReplicaState, queued: Queued) -> None:
    """Accept a request into the queue, or answer it now; an accepted one is never dropped."""
    if not r.is_primary:
        return answer(r, queued, Refusal.NOT_PRIMARY, b"")
    if queued.operation not in _KNOWN:
        return answer(r, queued, Refusal.UNKNOWN_OPERATION, b"")
    if queued.client != ZERO and r.pipeline.holds(queued.client, queued.request):
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


def accepts_requests(r: ReplicaState) -> bool:
    """N1: everything inherited from earlier views is applied, so table and state are current."""
    return r.commit_min >= r.inherited_op


def drain_queue(r: ReplicaState) -> None:
    """Turn waiting requests into ops while the pipeline has room."""
    pipeline = r.pipeline
    if r.noop_due and not pipeline.is_full():
        r.noop_due = False
        prepare(r, NOOP, b"", ZERO, 0, ZERO, 0, None, 0)
    while pipeline.queue and not pipeline.is_full() and accepts_requests(r):
        if r.journal_is_behind():
            return
        queued = pipeline.dequeue()
        if not _propose(r, queued):
            pipeline.forget(queued.client, queued.request)


def _propose(r: ReplicaState, queued: Queued) -> bool:
    """Preflight, stamping, prepare (N2); false when the request was answered without an op."""
    client, operation = queued.client, queued.operation
    if r.newer_operations and r.newer_operations.get(operation, 0) > r.cluster_release:
        answer(r, queued, Refusal.RELEASE_TOO_OLD, b"")
        return False
    if operation == REGISTER:
        r.pipeline.registering.add(client)
    elif client != ZERO:
        if client in r.pipeline.registering:
            # Its epoch ends with an op that is already on its way; judge it after that op.
            answer(r, queued, Refusal.BUSY, b"")
            return False
        verdict, reply = r.client_table.preflight(
            client, queued.request, queued.request_checksum, queued.epoch
        )
        if verdict is not RequestVerdict.NEW:
            if reply is not None:
                answer(r, queued, reply.status, reply.payload)
            else:
                answer(r, queued, _REFUSED_BY[verdict], b"")
            return False
    body, partition = queued.payload, 0
    if operation not in _UNSTAMPED:
        proposal = _new(AdmittedRequest, (client, queued.request, operation, body, queued.user_id))
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
    """Monotonic over the whole log, whatever the wall clock does (T2)."""
    wall, following = r.wall_us, r.last_timestamp + 1
    return wall if wall > following else following


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
    header = seal_prepare(_new(Prepare, (
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.view, r.release, _PREPARE,
        r.replica_id, client, r.canon[r.op].checksum, request_checksum, op, r.commit_max,
        next_timestamp(r), request, operation, r.group, user_id,
    )))
    # fmt: on
    r.canon[op] = header
    r.op = op
    if not r.pipeline.entries:
        r.timers.start(Timer.PREPARE)
        r.timers.start(Timer.PRIMARY_ABDICATE)
    r.pipeline.append(InFlight(header, 0, origin, partition, r.monotonic_us))
    entry = r.journal(header, body)
    r.broadcast(header, body)
    if entry.held == DURABLE:
        own_acks(r)


# -- acks at the primary --------------------------------------------------------------------------


def own_acks(r: ReplicaState) -> None:
    """The primary's own bit, after its own fsync."""
    if r.advance_durable_prefix() and r.pipeline.entries:
        r.pipeline.acknowledge(r.replica_id, r.durable_prefix)
        advance_commit(r)


def on_prepare_ok(r: ReplicaState, header: PrepareOk, _: bytes) -> None:
    """N6: counts only for this view and for exactly our entry at that op."""
    if header.view != r.view or not r.is_primary:
        return
    op, replica = header.op, header.replica
    if r.forgetful and has_forgotten(r, replica):
        _leave_if_it_is_needed(r)
        return
    ours = r.canon.get(op)
    if ours is None or op > r.op:
        return
    if ours.checksum != header.prepare_checksum:
        return
    if r.votes:
        # V4 as a primary sees it: a replica that acknowledges has withdrawn its vote, and so does a
        # primary that is acknowledged again. A stale vote would help the next one to a quorum.
        r.votes &= ~(1 << replica | 1 << r.replica_id)
        r.voting = False
        r.timers.stop(Timer.START_VIEW_CHANGE)
    entries = r.pipeline.entries
    if not entries:
        return
    r.abdicating = False
    r.timers.start(Timer.PRIMARY_ABDICATE)
    first = entries[0].op
    if op < first:
        return
    # The contact is as old as the prepare that is acknowledged (L1); replays cannot renew it.
    prepared_us = entries[min(op - first, len(entries) - 1)].prepared_us
    if prepared_us > r.contact_us[replica]:
        r.contact_us[replica] = prepared_us
    r.pipeline.acknowledge(replica, op)
    advance_commit(r)


def has_forgotten(r: ReplicaState, replica: int) -> bool:
    """G2: it lost its disk in this view, and with it the memory of what it promised.

    Its former life may have left this view: its claim for the next one waits at a candidate or is
    on its way there. A replica counts for one of the two views only, so what this one says counts
    from the next view on. Its claim cannot be for a later view: the replicas that committed the
    barrier would have left this view first.
    """
    return r.forgetful.get(replica) == r.view


def _leave_if_it_is_needed(r: ReplicaState) -> None:
    """An op that others had time to acknowledge waits for the one that forgot: on to the next view.

    Nothing else would end this view soon, because the primary reaches every live replica.
    """
    entries = r.pipeline.entries
    patience_us = r.config.timeouts.lease * MICROSECONDS_PER_TICK
    waits = entries and r.monotonic_us - entries[0].prepared_us > patience_us
    if waits and not r.abdicating:
        view_change.make_way(r)


def advance_commit(r: ReplicaState) -> None:
    """Commit the longest prefix a replication quorum holds, then apply and answer."""
    pipeline = r.pipeline
    quorum = r.quorums.replication
    before = r.commit_max
    while pipeline.entries and pipeline.entries[0].acks.bit_count() >= quorum:
        committed = pipeline.pop()
        r.commit_max = committed.op
        r.reply_due[committed.op] = committed
    if r.commit_max == before:
        return
    # M3: without this reset a burst of loss slows every later op.
    if pipeline.entries:
        r.timers.start(Timer.PREPARE)
    apply_committed(r)
    drain_queue(r)
    if not pipeline.entries:
        r.timers.stop(Timer.PREPARE)
        r.timers.stop(Timer.PRIMARY_ABDICATE)
        broadcast_commit(r)


def on_prepare_timer(r: ReplicaState) -> None:
    """N9: resend to replicas that have not acked, less and less often while nothing moves."""
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
    stamp, following = r.monotonic_us, r.ping_monotonic + 1
    r.ping_monotonic = stamp = stamp if stamp > following else following
    return stamp


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
    r.broadcast(_new(Commit, (
        UNSEALED, checksum(body) if body else EMPTY_BODY, r.cluster, HEADER_BYTES + len(body),
        r.view, r.release, _COMMIT, r.replica_id,
        committed.checksum if committed is not None else ZERO, monotonic_stamp(r), r.commit_max,
        r.checkpoint_op, r.group,
    )), body)
    # fmt: on
