"""A decided view begins: at its primary, and at the backups that adopt it (E8, A1-A5)."""

from borzoi.consensus import applying, following, heartbeat, normal, repair
from borzoi.consensus.effects import Abdicate, Leadership
from borzoi.consensus.frames import decode_headers, is_blank
from borzoi.consensus.invariants import invariant, present
from borzoi.consensus.messages import ZERO, Prepare, RequestStartView, StartView
from borzoi.consensus.pipeline import InFlight
from borzoi.consensus.state import NORMAL, RECOVERING, VIEW_CHANGE, ReplicaState
from borzoi.consensus.timeouts import Timer
from borzoi.consensus.view_change import (
    drop_leadership,
    forfeit,
    install_suffix,
    reset_view_scoped,
    send_start_view,
)


def try_start_view(r: ReplicaState) -> None:
    """E8, re-evaluated whenever something became durable (M4)."""
    if r.status is not VIEW_CHANGE or not r.leads_view() or not r.log_is_durable():
        return
    if r.resigned:
        return
    if r.durable_prefix < r.op:
        return
    if r.elects and heartbeat.clock_error_us(r):
        # T2: a candidate with a wrong clock does not begin; the next one in line does.
        forfeit(r)
        return
    become_primary(r)


def become_primary(r: ReplicaState) -> None:
    invariant(r.log_view == r.view, "a primary holds the log of its view")
    r.status = NORMAL
    r.timers.stop(Timer.VIEW_CHANGE_STATUS)
    r.timers.stop(Timer.REPAIR)
    r.timers.stop(Timer.START_VIEW_CHANGE)
    r.timers.stop(Timer.REQUEST_START_VIEW)
    # Whatever was being fetched, the whole log of this view is here.
    r.transfer = None
    r.timers.stop(Timer.STATE_TRANSFER_STALL)
    r.votes = 0
    r.voting = False
    r.inherited_op = r.op
    own = 1 << r.replica_id
    for op in range(r.commit_max + 1, r.op + 1):
        r.pipeline.append(InFlight(r.canon[op], own, None, 0, r.monotonic_us))
    if r.pipeline.entries:
        r.timers.start(Timer.PREPARE)
        r.timers.start(Timer.PRIMARY_ABDICATE)
    if r.elects:
        r.timers.start(Timer.COMMIT_MESSAGE)
    r.take_role(Leadership.LEADER)
    for to in r.others:
        send_start_view(r, to, ZERO)
    normal.advance_commit(r)
    applying.apply_committed(r)
    # N11: inherited ops commit without waiting for a client.
    r.noop_due = True
    normal.drain_queue(r)


def on_request_start_view(r: ReplicaState, header: RequestStartView, _: bytes) -> None:
    """A probe; after the answer to a wiped replica comes the barrier op (G2)."""
    if not r.is_primary or header.view > r.view or r.abdicating:
        return
    send_start_view(r, header.replica, header.incarnation)
    if header.flags & following.FLAG_WIPED:
        r.pipeline.withdraw(header.replica)
        r.contact_us[header.replica] = -1
        r.forgetful[header.replica] = r.view
        if header.flags & following.FLAG_HAS_BARRIER and header.view == r.view:
            # An op for each of its questions would make a log that it never catches up with.
            return
        r.noop_due = True
        normal.drain_queue(r)


def on_start_view(r: ReplicaState, header: StartView, body: bytes) -> None:
    """A1: from the primary of that view, newer than ours or telling more of it."""
    if not _accepts_start_view(r, header):
        return
    headers = decode_headers(body, r.cluster)
    if not headers or len(headers) != header.op - header.commit + 1 or any(map(is_blank, headers)):
        return
    headers.reverse()
    adopt(r, header, headers)


def _accepts_start_view(r: ReplicaState, header: StartView) -> bool:
    if r.is_empty or header.view < r.view or r.primary_of(header.view) == r.replica_id:
        return False
    if header.op < r.commit_min and _was_overtaken(r, header):
        return False
    solicited = header.incarnation == r.incarnation
    if r.status is RECOVERING and header.view > r.view:
        return solicited
    if header.view > r.view:
        # D2: a data group only takes views its node's control group has reached.
        return r.elects
    if r.follows_log():
        return header.op > r.op
    return r.status is VIEW_CHANGE or solicited


def _was_overtaken(r: ReplicaState, header: StartView) -> bool:
    """Whether what was applied here behind the end of this message was prepared after it was sent.

    A replica that fetched a checkpoint of a view before it entered it can meet the beginning of
    that view later. An applied op of an older view would have to be in the message: `adopt` says so
    and stops.
    """
    return present(r.canon.get(r.commit_min), "the applied op is known").view >= header.view


def adopt(r: ReplicaState, header: StartView, headers: list[Prepare]) -> None:
    """A2-A4."""
    changes_view = header.view > r.view or r.log_view != header.view or not r.follows_log()
    if header.view > r.view:
        invariant(r.commit_max <= header.op, "a new view keeps every committed op")
        drop_leadership(r)
    r.view = header.view
    install_suffix(r, headers)
    r.log_view = r.view
    r.commit_max = max(r.commit_max, header.commit)
    if changes_view:
        reset_view_scoped(r)
        r.claims.clear()
        r.do_view_change = None
        r.undecidable = None
        if r.wiped:
            # The first op prepared after this answer is the barrier.
            r.barrier = header.op + 1
        else:
            r.status = NORMAL
        r.take_role(Leadership.FOLLOWER)
    r.timers.stop(Timer.VIEW_CHANGE_STATUS)
    r.timers.stop(Timer.DO_VIEW_CHANGE)
    if not r.wiped:
        r.timers.stop(Timer.REQUEST_START_VIEW)
    following.hear_primary(r)
    for op in [op for op in r.future if op <= r.op]:
        del r.future[op]
    r.persist()
    repair.begin(r)
    following.acknowledge(r)
    applying.apply_committed(r)


def on_request_start_view_timer(r: ReplicaState) -> None:
    """A5, V7: still outside, still behind, or still wiped."""
    if r.is_empty or (r.is_primary and not r.wiped):
        return
    behind = r.commit_max > r.op or r.probe_view > r.view
    waiting = r.status is VIEW_CHANGE and r.log_view < r.view
    if behind or waiting or r.wiped:
        following.request_start_view(r)
        r.timers.start(Timer.REQUEST_START_VIEW)
    if r.wiped and not r.elects and r.primary_of(r.node_view) == r.replica_id:
        # The view this node leads cannot start here: a wiped replica neither votes nor merges, so
        # its probe would never be answered (D2).
        r.effects.append(Abdicate(f"group {r.group} is still rejoining in view {r.node_view}"))
