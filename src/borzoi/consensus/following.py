"""A backup in normal operation: prepares in, cumulative acks out, commits learned (N4-N8, V7)."""

from typing import Final

from borzoi.consensus import repair
from borzoi.consensus.applying import apply_committed
from borzoi.consensus.frames import EMPTY_BODY
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import (
    HEADER_BYTES,
    UNSEALED,
    ZERO,
    Command,
    Commit,
    Prepare,
    PrepareOk,
    RequestStartView,
)
from borzoi.consensus.state import FUTURE_MAX, NORMAL, ReplicaState
from borzoi.consensus.timeouts import Timer

_PREPARE_OK: Final = Command.PREPARE_OK.value
FLAG_WIPED: Final = 1
# A wiped replica that has its barrier: it asks for news of the view it names, not for another op.
FLAG_HAS_BARRIER: Final = 2
_new: Final = tuple.__new__


def on_prepare(r: ReplicaState, header: Prepare, body: bytes) -> None:
    """N4."""
    if header.view > r.view:
        probe(r, header.view)
        return
    op = header.op
    if header.view == r.view and op > r.op:
        if r.follows_log() and not r.leads_view():
            _take_new(r, header, body)
        return
    if repair.may_repair(r):
        _take_known(r, header, body)


def _take_new(r: ReplicaState, header: Prepare, body: bytes) -> None:
    op = header.op
    if op > r.op + 1:
        if len(r.future) < FUTURE_MAX:
            r.future[op] = (header, body)
            r.timers.ensure(Timer.REPAIR)
        return
    hear_primary(r)
    if r.journal_is_behind():
        return
    while True:
        if header.parent != r.canon[r.op].checksum:
            raise InvariantError(
                f"op {header.op} of view {header.view} does not continue the log of that view"
            )
        r.op = header.op
        r.canon[r.op] = header
        r.journal(header, body)
        following = r.future.pop(r.op + 1, None) if r.future else None
        if following is None:
            break
        header, body = following
    learn_commit(r, header.commit)


def _take_known(r: ReplicaState, header: Prepare, body: bytes) -> None:
    """By identity only: fills a hole, or repeats what is here and wants an ack again."""
    op = header.op
    canonical = r.canon.get(op)
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
    if r.status is not NORMAL or r.leads_view() or r.durable_wiped:
        return
    if not r.log_is_durable():
        return
    # A transferred checkpoint replaces journal records only once the superblock names it.
    if r.transfer is not None or r.durable_checkpoint_op < r.installed_op:
        return
    op = r.durable_prefix
    if op == 0 or (op <= r.acked_prefix and not again):
        return
    r.acked_prefix = op
    promise(r)
    acked = r.canon[op]
    # fmt: off
    r.send(r.primary_of(r.view), _new(PrepareOk, (
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.view, r.release, _PREPARE_OK,
        r.replica_id, acked.parent, acked.checksum, op, r.commit_max, acked.timestamp,
        acked.request, acked.operation, r.group,
    )))
    # fmt: on


def promise(r: ReplicaState) -> None:
    """A replica starts no other view while its answer to the primary can carry a lease (L1)."""
    if r.elects:
        r.promise_until = r.timers.now + 2 * r.config.timeouts.lease


def hear_primary(r: ReplicaState) -> None:
    """V4: the primary of this view lives, so this replica does not want to leave it."""
    if r.elects and r.status is NORMAL:
        r.timers.push_back(Timer.NORMAL_HEARTBEAT)
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
    """V7: a newer view is at work; ask its primary instead of electing."""
    if not r.elects or r.is_empty:
        # A data group follows its node's control group (D2) and asks once that has moved.
        return
    if view > r.probe_view:
        r.probe_view = view
        r.timers.start(Timer.REQUEST_START_VIEW)
        request_start_view(r)


def request_start_view(r: ReplicaState) -> None:
    """Ask the primary of the newest known view; a wiped replica asks all replicas (G2)."""
    target = r.primary_of(max(r.view, r.probe_view))
    flags = 0
    if r.wiped:
        flags = FLAG_WIPED
        if r.barrier is not None and r.view_is_durable():
            flags |= FLAG_HAS_BARRIER
    # fmt: off
    asked = RequestStartView(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_START_VIEW.value, r.replica_id, r.group, flags, r.incarnation,
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
        return False
    if header.timestamp_monotonic <= r.heard_monotonic:
        return False
    r.heard_monotonic = header.timestamp_monotonic
    hear_primary(r)
    if header.checkpoint_op > r.peer_checkpoint_op:
        r.peer_checkpoint_op = header.checkpoint_op
    ours = r.canon.get(header.commit)
    if ours is not None and header.commit_checksum not in (ZERO, ours.checksum):
        raise InvariantError(f"op {header.commit} is committed with another content than here")
    learn_commit(r, header.commit)
    return True
