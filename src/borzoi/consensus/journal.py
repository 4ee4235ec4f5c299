"""The journal: prepares as they were sent, found by identity, classified after a crash (S4-S6).

::

    bytes      field       one record
    0..256     header      of the Prepare, as sent
    256..size  body
    size..     padding     zero, to a multiple of 64
    +0..8      magic       b"BRZTRAIL", a trailer of 64 bytes that names the record once more
    +8..16     op          u64
    +16..32    identity    u128, the checksum of the prepare
    +32..36    view        u32
    +36..40    size        u32, of the frame: says where the record began
    +40..56    reserved    zero
    +56..64    checksum    first 8 bytes of the XXH3-128 of the 56 bytes before

The trailer is there for one case: when the header rots, the op that is lost still has a name, so
this replica knows what it can no longer vouch for. A file is records back to back and zeros to its
end. Pure over bytes: the driver reads and writes.

What a restart makes of a record (S5), with the ring of redundant headers (``header_ring``) or,
without a ring, as if no slot named it:

::

    header  body  good records behind it  in the ring  verdict
    good    good  -                       -            readable
    good    bad   yes                     -            faulty
    good    bad   no                      yes          faulty: it rotted
    good    bad   no                      no           torn, cut: it was never acknowledged
    bad     -     yes                     yes          faulty, with the ring's header
    bad     -     yes                     no           a gap: named by trailer or neighbours, or
                                                       covered by a ring that reaches back over it
    bad     -     no                      yes          faulty, with the ring's header: it rotted
    bad     -     no                      no           torn, cut
"""

from struct import Struct
from typing import Final, NamedTuple

import msgspec

from borzoi.consensus.config import FRAME_BYTES_MAX
from borzoi.consensus.frames import checksum, pack_header
from borzoi.consensus.header_ring import (
    RING_SLOTS,
    decode_ring,
    encode_ring,
    header_in,
    is_sound,
)
from borzoi.consensus.messages import HEADER_BYTES, U128, ZERO, Prepare
from borzoi.consensus.superblock import Superblock
from borzoi.model.value import Value

ALIGNMENT: Final = 64
TRAILER_BYTES: Final = 64
# As new as can be, so that the record is not mistaken for a dead one.
VIEW_UNKNOWN: Final = (1 << 32) - 1
TRAILER_MAGIC: Final = b"BRZTRAIL"
_TRAILER: Final = Struct("<8sQ16sII16x")


class JournalRecord(NamedTuple):
    """A record whose header is good; ``readable`` says whether the body is as well."""

    header: Prepare
    readable: bool
    position: int = 0


class Gap(NamedTuple):
    """A record whose header is bad, between ``records[after - 1]`` and ``records[after]``.

    Its trailer names it by op, identity and view, unless that is bad as well (op 0). ``covered``:
    whatever it was, the ring has its header.
    """

    after: int
    op: int = 0
    identity: U128 = ZERO
    view: int = VIEW_UNKNOWN
    covered: bool = False


class JournalScan(Value):
    """What a journal holds, in file order; ``end`` is where the next record goes.

    ``redundant`` are headers that only the ring still has: their records rotted, or were recycled.
    """

    records: tuple[JournalRecord, ...] = ()
    gaps: tuple[Gap, ...] = ()
    end: int = 0
    redundant: tuple[Prepare, ...] = ()


class RecoveredLog(msgspec.Struct):
    """The log a replica may claim after a restart."""

    op: int
    commit_max: int
    canon: dict[int, Prepare]
    readable: dict[U128, Prepare]
    faulty: dict[U128, Prepare]
    lost: dict[U128, int]
    broken: bool


def record_bytes(size: int) -> int:
    """Space a record with this frame size takes."""
    return size + -size % ALIGNMENT + TRAILER_BYTES


def encode_record(header: Prepare, body: bytes) -> bytes:
    frame = pack_header(header) + body
    named = _TRAILER.pack(TRAILER_MAGIC, header.op, header.checksum, header.view, header.size)
    return frame + bytes(-len(frame) % ALIGNMENT) + named + checksum(named)[:8]


def scan(
    data: bytes,
    cluster: U128,
    ring: bytes = b"",
    *,
    checkpoint_op: int = 0,
    ring_covers: bool = False,
) -> JournalScan:
    """Read a journal as it was left, telling a torn tail from damage (S5).

    Headers in the ring up to ``checkpoint_op``, which the superblock names, are left out: their
    records may have been recycled. With ``ring_covers`` the ring also speaks for gaps without a
    name: it was written in the order of the journal, so it has every record behind one it has.
    """
    records: list[JournalRecord] = []
    gaps: list[Gap] = []
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = _header_at(data, position, cluster)
        if header is None:
            following = _next_header(data, position, cluster)
            if following is None:
                break
            gaps += _gaps_between(data, position, following, len(records))
            position = following
            continue
        end = position + header.size
        body = data[position + HEADER_BYTES : end]
        readable = end <= len(data) and checksum(body) == header.checksum_body
        records.append(JournalRecord(header, readable, position))
        position += record_bytes(header.size)
    named = decode_ring(ring, cluster)
    if ring_covers and is_sound(ring, cluster):
        # A prepare that was written again is in the ring for its last record, not for its first.
        last = {record.header.checksum: n for n, record in enumerate(records) if record.readable}
        oldest = min((n for key, n in last.items() if key in named), default=len(records))
        gaps = [gap._replace(covered=not gap.op and oldest < gap.after) for gap in gaps]
    named = {key: header for key, header in named.items() if header.op > checkpoint_op}
    return _cut_tail(data, records, gaps, named)


def ring_after(found: JournalScan) -> bytes:
    """The ring to write, and to sync, before a replica starts from this scan.

    A record that a power cut spared may not be in the ring yet, and once the replica runs it counts
    as acknowledged. What only the ring knows stays in it. Records before a gap that cannot be
    named stay out: the ring must not seem to cover it.
    """
    start = max((gap.after for gap in found.gaps if not gap.op and not gap.covered), default=0)
    start = max(start, len(found.records) + len(found.redundant) - RING_SLOTS)
    return encode_ring([*found.redundant, *[record.header for record in found.records[start:]]])


def _gaps_between(data: bytes, start: int, end: int, after: int) -> list[Gap]:
    """One gap per trailer in a damaged stretch, and one without a name for what they leave open."""
    gaps: list[Gap] = []
    position = start
    while start < end and (position := data.find(TRAILER_MAGIC, position, end)) >= 0:
        named = data[position : position + TRAILER_BYTES]
        if position % ALIGNMENT == 0 and checksum(named[:56])[:8] == named[56:]:
            _, op, identity, view, size = _TRAILER.unpack(named[:56])
            if position + TRAILER_BYTES - record_bytes(size) > start:
                gaps.append(Gap(after))
            gaps.append(Gap(after, op, identity, view))
            start = position + TRAILER_BYTES
        position += len(TRAILER_MAGIC)
    if start < end:
        gaps.append(Gap(after))
    return gaps


def _cut_tail(
    data: bytes, records: list[JournalRecord], gaps: list[Gap], ring: dict[U128, Prepare]
) -> JournalScan:
    """Damage with nothing valid after it, and not in the ring, was never acked: a torn write."""
    while records and not records[-1].readable and records[-1].header.checksum not in ring:
        records.pop()
    kept = tuple(gap for gap in gaps if gap.after < len(records))
    found = {record.header.checksum for record in records}
    redundant = tuple(header for identity, header in ring.items() if identity not in found)
    end = records[-1].position + record_bytes(records[-1].header.size) if records else 0
    in_gaps = {gap.identity for gap in kept}
    if any(header.checksum not in in_gaps for header in redundant):
        # Here it lies, unreadable: the only witness once the ring has gone round.
        used = len(data.rstrip(b"\0"))
        end = max(end, used + -used % ALIGNMENT)
    return JournalScan(tuple(records), kept, end, redundant)


def _header_at(data: bytes, position: int, cluster: U128) -> Prepare | None:
    header = header_in(data[position : position + HEADER_BYTES], cluster)
    if header is None or not HEADER_BYTES <= header.size <= FRAME_BYTES_MAX:
        return None
    return header


def _next_header(data: bytes, position: int, cluster: U128) -> int | None:
    """Records start at multiples of 64; command and cluster bytes serve as their magic."""
    position += ALIGNMENT
    while position + HEADER_BYTES <= len(data):
        if _header_at(data, position, cluster) is not None:
            return position
        found = data.find(cluster, position + ALIGNMENT)
        if found < 0:
            return None
        position = max(position + ALIGNMENT, (found - 32) // ALIGNMENT * ALIGNMENT)
    return None


def recover(superblock: Superblock, found: JournalScan, pipeline_max: int) -> RecoveredLog:
    """The canonical log after a restart (S6): the superblock decides, the journal extends."""
    readable: dict[U128, Prepare] = {}
    faulty: dict[U128, Prepare] = {}
    for header, good, _ in found.records:
        (readable if good else faulty)[header.checksum] = header
    for header in found.redundant:
        # Below the checkpoint it was recycled; above it, it was whole once and is unreadable now.
        if header.op > superblock.checkpoint_op:
            faulty[header.checksum] = header
    for identity in readable:
        faulty.pop(identity, None)
    lost, broken = _identify_gaps(found, readable | faulty, superblock.checkpoint_op)
    lost_ops = {gap.identity: gap.op for gap in lost}
    canon = {header.op: header for header in superblock.suffix}
    _extend_downwards(canon, superblock, readable | faulty)
    op = _extend_upwards(canon, superblock, readable | faulty, lost_ops)
    _fill_from_view(canon, superblock, readable | faulty, op)
    # The next op of this view was journaled and is gone: it may have been acknowledged, and a log
    # that ends below it would claim the opposite.
    broken |= any(gap.op == op + 1 and gap.view >= superblock.log_view for gap in lost)
    commit_max = max(
        superblock.commit,
        superblock.checkpoint_op,
        op - pipeline_max,
        max(header.commit for header in canon.values()),
    )
    return RecoveredLog(op, commit_max, canon, readable, faulty, lost_ops, broken)


def _identify_gaps(
    found: JournalScan, known: dict[U128, Prepare], checkpoint_op: int
) -> tuple[list[Gap], bool]:
    """Name what a gap swallowed: by its trailer, or by the parent its successor states.

    Without a trailer only a single record missing from a run of consecutive ops can be named.
    Anything else might have held an op that was acknowledged, and a replica that cannot say what
    it acknowledged must not vote.
    """
    lost: list[Gap] = []
    broken = False
    in_ring_only = {header.checksum for header in found.redundant}
    for gap in found.gaps:
        if gap.op:
            if gap.identity not in known:
                lost.append(gap)
            continue
        if gap.covered:
            continue
        after = found.records[gap.after].header
        if gap.after == 0 and after.op <= checkpoint_op + 1:
            # Earlier records were recycled; the checkpoint covers them.
            continue
        before_op = found.records[gap.after - 1].header.op if gap.after > 0 else 0
        consecutive = before_op + 2 == after.op
        if consecutive and after.parent in in_ring_only:
            # The ring has the very header that is missing here: it counts as faulty, not as lost.
            continue
        if consecutive and after.parent not in known:
            # Its view is at most its successor's.
            lost.append(Gap(gap.after, after.op - 1, after.parent, after.view))
        else:
            broken = True
    return lost, broken


def _extend_downwards(
    canon: dict[int, Prepare], superblock: Superblock, known: dict[U128, Prepare]
) -> None:
    lowest = superblock.suffix[0]
    while lowest.op > superblock.checkpoint_op:
        below = known.get(lowest.parent)
        if below is None:
            return
        canon[below.op] = below
        lowest = below


def _fill_from_view(
    canon: dict[int, Prepare], superblock: Superblock, known: dict[U128, Prepare], head: int
) -> None:
    """Below a lost record the chain is cut, but a view has one prepare for each op."""
    for header in known.values():
        if header.view == superblock.log_view and superblock.checkpoint_op < header.op < head:
            canon.setdefault(header.op, header)


def _extend_upwards(
    canon: dict[int, Prepare],
    superblock: Superblock,
    known: dict[U128, Prepare],
    lost: dict[U128, int],
) -> int:
    """Only records of ``log_view`` that chain: older views above the suffix are dead."""
    following = {
        header.parent: header for header in known.values() if header.view == superblock.log_view
    }
    lost_at = {op: identity for identity, op in lost.items()}
    head = superblock.suffix[-1]
    while True:
        above = following.get(head.checksum)
        if above is None:
            # A record lost to rot still had a successor in this view: step over it, keep it blank.
            above = following.get(lost_at.get(head.op + 1, head.checksum))
            if above is None or above.op != head.op + 2:
                return head.op
        canon[above.op] = above
        head = above
