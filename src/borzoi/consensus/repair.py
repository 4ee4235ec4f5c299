"""Fetching what is missing, by identity: headers downwards, then bodies (R1).

Repair is level-triggered: a round looks at what is missing now, so a lost answer, a dead peer or a
view change in between need no bookkeeping. It runs from the tick (M4).
"""

from typing import Final

from borzoi.consensus.config import SUFFIX_HEADERS_MAX
from borzoi.consensus.effects import ReadJournal
from borzoi.consensus.frames import EMPTY_BODY, checksum, decode_headers, encode_headers
from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import (
    HEADER_BYTES,
    U128,
    UNSEALED,
    Command,
    Headers,
    Prepare,
    RequestHeaders,
    RequestPrepare,
)
from borzoi.consensus.state import DURABLE, FAULTY, VIEW_CHANGE, JournalEntry, ReplicaState
from borzoi.consensus.timeouts import Timer

BODIES_IN_FLIGHT: Final = 8
# Rounds without progress after which the missing op is taken to be gone from every journal.
ROUNDS_BEFORE_TRANSFER: Final = 20


def may_repair(r: ReplicaState) -> bool:
    """Normal, catching up, or a candidate that has decided its log (E7)."""
    return r.follows_log() or (r.status is VIEW_CHANGE and r.log_view == r.view)


def missing_body(r: ReplicaState, header: Prepare) -> bool:
    entry = r.entries.get(header.checksum)
    return entry is None or entry.held == FAULTY


def _floor(r: ReplicaState) -> int:
    """Nothing at or below it needs repair: it is durable, or covered by a checkpoint."""
    return max(r.durable_prefix, r.checkpoint_op)


def lowest_missing(r: ReplicaState) -> int | None:
    """The lowest op whose header or body this replica lacks."""
    for op in range(_floor(r) + 1, r.op + 1):
        header = r.canon.get(op)
        if header is None or missing_body(r, header):
            return op
    return r.op + 1 if r.future else None


def link_held(r: ReplicaState) -> None:
    """A header that is missing may be in our own journal: the one above names it."""
    for op in range(r.op - 1, max(_floor(r), r.commit_min), -1):
        above = r.canon.get(op + 1)
        if op in r.canon or above is None:
            continue
        entry = r.entries.get(above.parent)
        if entry is not None:
            r.canon[op] = entry.header
            check_chain_to_applied(r, entry.header)
    r.advance_durable_prefix()


def begin(r: ReplicaState) -> None:
    """Something may be missing: look here, ask at once, and keep asking from the tick."""
    if not may_repair(r):
        return
    link_held(r)
    if lowest_missing(r) is None:
        return
    r.timers.ensure(Timer.REPAIR)
    ask(r)


def on_timer(r: ReplicaState) -> bool:
    """One round; true when the missing op seems to be gone from every peer's journal."""
    lowest = lowest_missing(r) if may_repair(r) else None
    if lowest is None:
        r.repair_rounds = 0
        return False
    r.timers.start(Timer.REPAIR)
    if r.journal_is_behind():
        return False  # the disk is slow, which says nothing about what the peers have
    if lowest == r.repair_lowest:
        r.repair_rounds += 1
    else:
        r.repair_lowest, r.repair_rounds = lowest, 0
    r.repairing.clear()
    ask(r)
    return r.repair_rounds >= ROUNDS_BEFORE_TRANSFER


def ask(r: ReplicaState) -> None:
    """Ask for the highest missing header and the oldest missing bodies, from changing peers."""
    if not r.others:
        return
    turn = r.random.randrange(len(r.others))
    op, header_asked = r.op, False
    wanted: list[Prepare] = []
    floor = _floor(r)
    while op > floor:
        header = r.canon.get(op)
        if header is None:
            above = r.canon.get(op + 1)
            if above is not None and not header_asked:
                header_asked = True
                turn += 1
                _request_headers(r, op, above.parent, r.others[turn % len(r.others)])
        elif missing_body(r, header):
            wanted.append(header)
        op -= 1
    if r.journal_is_behind():
        return  # bodies would only wait in memory; the timer asks again
    for header in reversed(wanted):
        if len(r.repairing) >= BODIES_IN_FLIGHT:
            break
        if header.op not in r.repairing:
            turn += 1
            r.repairing[header.op] = turn
            _request_prepare(r, header.op, header.checksum, r.others[turn % len(r.others)])
    if r.future:
        # The prepare above the gap came from the primary of this view, so its parent is canonical.
        lowest = min(r.future)
        if lowest > r.op + 1:
            parent = r.future[lowest][0].parent
            _request_prepare(r, lowest - 1, parent, r.others[turn % len(r.others)])


def _request_headers(r: ReplicaState, op_max: int, identity: U128, to: int) -> None:
    op_min = max(_floor(r) + 1, op_max - SUFFIX_HEADERS_MAX + 1)
    # fmt: off
    r.send(to, RequestHeaders(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_HEADERS.value, r.replica_id, r.group, op_min, op_max, identity,
    ))
    # fmt: on


def _request_prepare(r: ReplicaState, op: int, identity: U128, to: int) -> None:
    # fmt: off
    r.send(to, RequestPrepare(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_PREPARE.value, r.replica_id, r.group, op, identity,
    ))
    # fmt: on


def on_request_headers(r: ReplicaState, header: RequestHeaders, _: bytes) -> None:
    """Answer whatever the status: each header is named by the one above it."""
    found: list[Prepare] = []
    op, identity = header.op_max, header.op_max_checksum
    while op >= header.op_min and op > 0 and len(found) < SUFFIX_HEADERS_MAX:
        known = header_by_identity(r, op, identity)
        if known is None:
            break
        found.append(known)
        op, identity = op - 1, known.parent
    if found:
        body = encode_headers(found)
        # fmt: off
        r.send(header.replica, Headers(
            UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.durable_view,
            r.release, Command.HEADERS.value, r.replica_id, r.group,
        ), body)
        # fmt: on


def header_by_identity(r: ReplicaState, op: int, identity: U128) -> Prepare | None:
    known = r.canon.get(op)
    if known is not None and known.checksum == identity:
        return known
    entry = r.entries.get(identity)
    return entry.header if entry is not None else None


def on_headers(r: ReplicaState, header: Headers, body: bytes) -> bool:
    """Take headers as far as they chain down from a canonical one; true when some were new."""
    headers = decode_headers(body, r.cluster)
    if not headers or not may_repair(r):
        return False
    taken = False
    for found in headers:
        above = r.canon.get(found.op + 1)
        if above is None or above.parent != found.checksum:
            break
        known = r.canon.get(found.op)
        if known is None and found.op > r.commit_min:
            r.canon[found.op] = found
            taken = True
            check_chain_to_applied(r, found)
    return taken


def check_chain_to_applied(r: ReplicaState, lowest: Prepare) -> None:
    """Where repair meets the applied log the chain must close: else two histories were applied."""
    if lowest.op != r.commit_min + 1:
        return
    applied = r.canon.get(r.commit_min)
    invariant(
        applied is None or applied.checksum == lowest.parent,
        f"op {lowest.op} does not continue what was applied",
    )


def on_request_prepare(r: ReplicaState, header: RequestPrepare, _: bytes) -> None:
    """Send exactly that body, or stay silent."""
    entry = r.entries.get(header.prepare_checksum)
    if entry is not None and entry.held != FAULTY:
        send_prepare(r, entry, header.replica)


def send_prepare(r: ReplicaState, entry: JournalEntry, to: int) -> None:
    """The original bytes, from memory or from the journal (F2)."""
    if entry.body is not None:
        r.send(to, entry.header, entry.body)
        return
    token = r.token()
    r.reads_in_flight[token] = (entry.header, to)
    r.effects.append(ReadJournal(entry.header.op, entry.header.checksum, token))


def read_for_apply(r: ReplicaState, entry: JournalEntry) -> None:
    """The body of a committed op is only on disk; request it unless a read is in flight."""
    if entry.reading:
        return
    entry.reading = True
    token = r.token()
    r.reads_in_flight[token] = (entry.header, None)
    r.effects.append(ReadJournal(entry.header.op, entry.header.checksum, token))


def on_read(r: ReplicaState, token: int, body: bytes | None) -> bool:
    """A journal read ended; true when the body was wanted for applying."""
    header, to = r.reads_in_flight.pop(token)
    entry = r.entries.get(header.checksum)
    if entry is None:
        return False
    if to is None:
        entry.reading = False
    if body is None:
        # Was durable, is unreadable: neither present nor nack from now on (V8).
        if entry.held == DURABLE:
            entry.held = FAULTY
            r.recompute_durable_prefix()
            begin(r)
        return False
    invariant(checksum(body) == header.checksum_body, "a journal read returns what was written")
    if to is not None:
        r.send(to, header, body)
        return False
    entry.body = body
    return True
