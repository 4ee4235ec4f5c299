"""Leaving a view and deciding the log of the next one (V1-V10, E1-E6)."""

from borzoi.consensus import repair
from borzoi.consensus.effects import (
    Abdicate,
    EnterView,
    FailWaiters,
    Leadership,
    Undecidable,
)
from borzoi.consensus.frames import (
    EMPTY_BODY,
    blank,
    checksum,
    decode_headers,
    encode_headers,
)
from borzoi.consensus.invariants import invariant
from borzoi.consensus.merge import Claim, Undecided, merge
from borzoi.consensus.messages import (
    HEADER_BYTES,
    U128,
    UNSEALED,
    ZERO,
    Command,
    DoViewChange,
    Prepare,
    StartView,
    StartViewChange,
)
from borzoi.consensus.quorum import members
from borzoi.consensus.state import (
    FAULTY,
    NORMAL,
    RECOVERING,
    VIEW_CHANGE,
    ReplicaState,
)
from borzoi.consensus.timeouts import Timer

# -- leaving --------------------------------------------------------------------------------------


def may_vote(r: ReplicaState) -> bool:
    """G1, G2: an empty or wiped replica has no voice; data groups do not elect (D2)."""
    return r.elects and r.status is not RECOVERING


def vote(r: ReplicaState) -> None:
    """V1: this replica's own timer fired: it leaves its view."""
    if not may_vote(r):
        return
    r.voting = True
    r.votes |= 1 << r.replica_id
    r.timers.start(Timer.START_VIEW_CHANGE)
    if r.view_is_durable():
        # fmt: off
        r.broadcast(StartViewChange(
            UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.view + 1, 0,
            Command.START_VIEW_CHANGE.value, r.replica_id, r.group,
        ))
        # fmt: on
    leave_on_quorum(r)


def on_vote_timer(r: ReplicaState) -> None:
    if r.voting:
        vote(r)


def leave_on_quorum(r: ReplicaState) -> None:
    """V2: only a quorum of replicas that each want it themselves ends a view."""
    if members(r.votes) >= r.quorums.view_change:
        enter_view(r, r.view + 1)


def on_start_view_change(r: ReplicaState, header: StartViewChange, _: bytes) -> None:
    if not may_vote(r):
        return
    left = header.view - 1
    if left < r.view:
        if r.is_primary:
            send_start_view(r, header.replica, ZERO)
        return
    if left > r.view:
        # V3: its sender is in a view that a quorum had to leave for.
        enter_view(r, left)
    r.votes |= 1 << header.replica
    leave_on_quorum(r)


def on_view_change_timer(r: ReplicaState) -> None:
    """ViewChangeStatus: this view does not start; vote, or make the control group vote (D2)."""
    if r.status is not VIEW_CHANGE:
        return
    if r.elects:
        vote(r)
    else:
        r.effects.append(Abdicate(f"group {r.group} cannot start view {r.view}"))
        r.timers.start(Timer.VIEW_CHANGE_STATUS)


def on_abdicate_timer(r: ReplicaState) -> None:
    """N10: no acks arrive; fall silent so that replicas that hear each other elect.

    The silent primary also votes: where the others alone are no quorum, its wish to leave counts.
    """
    if not r.is_primary or not r.pipeline.entries:
        return
    r.abdicating = True
    if r.elects:
        vote(r)
    else:
        r.effects.append(Abdicate(f"group {r.group} gets no acknowledgements in view {r.view}"))
        r.timers.start(Timer.PRIMARY_ABDICATE)


def enter_view(r: ReplicaState, view: int, *, from_primary: bool = False) -> None:
    """V5: nothing stamped with the new view leaves before the superblock holds it."""
    invariant(view > r.view, "views only go up")
    drop_leadership(r)
    r.view = view
    r.status = VIEW_CHANGE
    r.claims.clear()
    r.undecidable = None
    r.announces = False
    r.resigned = False
    if from_primary:
        # The holder of the lease left its view itself: the promise to it is void (L1).
        r.promise_until = 0
    reset_view_scoped(r)
    for timer in (Timer.NORMAL_HEARTBEAT, Timer.COMMIT_MESSAGE, Timer.REPAIR):
        r.timers.stop(timer)
    r.timers.start(Timer.VIEW_CHANGE_STATUS)
    r.timers.start(Timer.REQUEST_START_VIEW)
    r.timers.start(Timer.DO_VIEW_CHANGE)
    r.do_view_change = build_do_view_change(r)
    r.take_role(Leadership.NONE)
    r.persist()


def announce_view(r: ReplicaState) -> None:
    """D2: the node's data groups follow once this view is durable, so they are never ahead."""
    if r.elects and r.durable_view > r.announced_view:
        r.announced_view = r.durable_view
        r.effects.append(EnterView(r.durable_view, max(0, r.promise_until - r.timers.now)))


def drop_leadership(r: ReplicaState) -> None:
    if r.pipeline.has_waiters() or r.reply_due or r.reads:
        r.effects.append(FailWaiters(f"view {r.view} was lost"))
    r.pipeline.clear()
    r.reply_due.clear()
    r.reads.clear()
    r.machine.forget_prepared()
    r.timers.stop(Timer.PREPARE)
    r.timers.stop(Timer.PRIMARY_ABDICATE)
    r.noop_due = False
    r.abdicating = False


def reset_view_scoped(r: ReplicaState) -> None:
    """Counts and contacts of the old view do not apply to the new one."""
    r.votes = 0
    r.voting = False
    r.timers.stop(Timer.START_VIEW_CHANGE)
    r.future.clear()
    r.repairing.clear()
    r.acked_prefix = -1
    r.heard_monotonic = -1
    r.contact_us = [-1] * r.replica_count


# -- DoViewChange ---------------------------------------------------------------------------------


def build_do_view_change(r: ReplicaState) -> tuple[DoViewChange, bytes]:
    """V8: one entry per op from the head down to the commit, with what is known of its body."""
    commit = min(r.commit_max, r.op)
    headers: list[Prepare] = []
    nacks = presents = 0
    for slot, op in enumerate(range(r.op, commit - 1, -1)):
        header = r.canon.get(op)
        if header is None:
            headers.append(blank(op))
            continue
        headers.append(header)
        entry = r.entries.get(header.checksum)
        if entry is None:
            # Never journaled here, so never acknowledged; a record lost to rot was journaled.
            nacks |= (header.checksum not in r.lost and op > r.checkpoint_op) << slot
        elif entry.held != FAULTY:
            # A faulty entry may have been acknowledged: it is neither present nor nacked (P7).
            presents |= 1 << slot
    body = encode_headers(headers)
    # fmt: off
    return DoViewChange(
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.view, 0,
        Command.DO_VIEW_CHANGE.value, r.replica_id, r.op, commit, r.group, r.log_view,
        nacks.to_bytes(16, "little"), presents.to_bytes(16, "little"),
    ), body
    # fmt: on


def send_do_view_change(r: ReplicaState) -> None:
    """V9, V10: once durable, the same bytes every time; the candidate counts its own."""
    if r.status is not VIEW_CHANGE or r.log_view == r.view or r.do_view_change is None:
        return
    if not r.view_is_durable() or r.timers.now < r.promise_until:
        return
    header, body = r.do_view_change
    if r.announces:
        # The old primary leaves by itself: everyone may follow at once.
        r.broadcast(header, body)
    elif not r.leads_view():
        r.send(r.primary_of(r.view), header, body)
    if r.leads_view():
        count_claim(r, header, body)


def on_do_view_change_timer(r: ReplicaState) -> None:
    if r.status is VIEW_CHANGE and r.log_view < r.view:
        r.timers.start(Timer.DO_VIEW_CHANGE)
        send_do_view_change(r)


def on_do_view_change(r: ReplicaState, header: DoViewChange, body: bytes) -> None:
    if r.status is RECOVERING:
        return
    if header.view > r.view:
        if not r.elects:
            return
        left_by_primary = (
            r.status is NORMAL
            and header.view == r.view + 1
            and header.replica == r.primary_of(r.view)
        )
        enter_view(r, header.view, from_primary=left_by_primary)
    if header.view < r.view:
        return
    if r.is_primary:
        send_start_view(r, header.replica, ZERO)
    elif r.leads_view() and r.status is VIEW_CHANGE and r.log_view < r.view:
        count_claim(r, header, body)


def count_claim(r: ReplicaState, header: DoViewChange, body: bytes) -> None:
    """The first claim of a sender counts, later ones never held at the same time (P10)."""
    if header.replica in r.claims:
        return
    headers = decode_headers(body, r.cluster)
    if headers is None or len(headers) != header.op - header.commit + 1:
        return
    r.claims[header.replica] = Claim(
        header.replica,
        header.log_view,
        header.op,
        header.commit,
        tuple(headers),
        int.from_bytes(header.nack_bitset, "little"),
        int.from_bytes(header.present_bitset, "little"),
    )
    # The candidate's own claim must be among them: it is what its superblock promised.
    if r.replica_id in r.claims and len(r.claims) >= r.quorums.view_change:
        decide(r)


def decide(r: ReplicaState) -> None:
    """E1-E6: the merged log becomes canonical here, durably, before it is announced."""
    claims = [r.claims[replica] for replica in sorted(r.claims)]
    merged = merge(
        claims,
        nack_quorum=r.quorums.nack,
        pipeline_max=r.config.pipeline_max,
    )
    if isinstance(merged, Undecided):
        if len(claims) == r.replica_count and r.undecidable != merged.op:
            r.undecidable = merged.op
            r.effects.append(Undecidable(r.view, merged.op, merged.reason))
        return
    r.undecidable = None
    install_suffix(r, list(merged.headers))
    r.log_view = r.view
    r.commit_max = max(r.commit_max, merged.commit)
    invariant(r.commit_max <= r.op, "a new view keeps every committed op")
    r.timers.stop(Timer.DO_VIEW_CHANGE)
    r.timers.stop(Timer.REQUEST_START_VIEW)
    r.persist()
    repair.begin(r)
    if r.commit_max - r.commit_min > r.config.retain_ops + r.config.checkpoint_interval:
        # Too far behind to catch up by repair, and no peer offers a transfer without a primary.
        if r.elects:
            vote(r)
        else:
            r.effects.append(Abdicate(f"group {r.group} is too far behind to lead view {r.view}"))


def install_suffix(r: ReplicaState, headers: list[Prepare]) -> None:
    """A2: a decided suffix, ascending, becomes the canonical log; what was applied must agree."""
    base, head = headers[0].op, headers[-1].op
    invariant(r.commit_min <= head, f"op {r.commit_min} was applied and is not in the new log")
    for op in [op for op in r.canon if op > head]:
        del r.canon[op]
    for header in headers:
        known = r.canon.get(header.op)
        invariant(
            header.op > r.commit_min or known is None or known.checksum == header.checksum,
            f"op {header.op} was applied with another content",
        )
        r.canon[header.op] = header
    lowest = base
    while lowest - 1 > r.commit_min:
        below = r.canon.get(lowest - 1)
        if below is None or below.checksum != r.canon[lowest].parent:
            break
        lowest -= 1
    if lowest - 1 > r.commit_min:
        # Unverified headers lose their canonicity; their bodies stay in the journal (A3, P1).
        for op in range(r.commit_min + 1, lowest):
            r.canon.pop(op, None)
    else:
        repair.check_chain_to_applied(r, r.canon[lowest])
    r.op = head
    r.recompute_durable_prefix()


def send_start_view(r: ReplicaState, to: int, incarnation: U128) -> None:
    invariant(r.is_primary, "only a primary starts a view")
    suffix = list(r.suffix())
    base = suffix[0].op
    suffix.reverse()
    body = encode_headers(suffix)
    # fmt: off
    r.send(to, StartView(
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.view, 0,
        Command.START_VIEW.value, r.replica_id, r.op, base, r.group, incarnation,
    ), body)
    # fmt: on


def step_down(r: ReplicaState) -> None:
    """The primary leaves its view voluntarily, and notifies all replicas."""
    if r.is_primary and r.elects:
        forfeit(r)


def make_way(r: ReplicaState) -> None:
    """The primary cannot work in this view but could in the next: a data group asks its node."""
    if r.elects:
        forfeit(r)
    else:
        r.abdicating = True
        r.effects.append(Abdicate(f"group {r.group} cannot work in view {r.view}"))


def forfeit(r: ReplicaState) -> None:
    """The primary of this view, or its candidate, leaves it; only the primary holds its lease."""
    enter_view(r, r.view + 1, from_primary=True)
    r.announces = True
