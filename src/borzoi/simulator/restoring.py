"""From what a disk kept to what a replica is started with, at both fidelities."""

from borzoi.consensus import journal as journals
from borzoi.consensus import superblock as superblocks
from borzoi.consensus.checkpoint import Checkpoint
from borzoi.consensus.config import Config
from borzoi.consensus.frames import checksum
from borzoi.consensus.header_ring import RING_SLOTS, encode_ring, slot_position
from borzoi.consensus.journal import Gap, JournalRecord, JournalScan
from borzoi.consensus.messages import Prepare
from borzoi.consensus.recovery import Restored
from borzoi.consensus.superblock import Empty, Superblock, Unreadable
from borzoi.simulator.auditor import Violation
from borzoi.simulator.volume import Volume


def record_image(header: Prepare, body: bytes) -> bytes:
    return journals.encode_record(header, body)


def checkpoint_is_whole(volume: Volume, *, verify: bool) -> bool:
    """Whether the files of the checkpoint the superblock names are what its manifest says.

    Production reads and hashes all of them; here only where a bit is wrong, and where bytes count.
    """
    superblock = volume.newest()
    if superblock is None or not superblock.checkpoint_op:
        return True
    op = superblock.checkpoint_op
    if op not in volume.rotten and not verify:
        return True
    return all(
        checksum(volume.read_checkpoint(op, index) or b"") == entry.checksum
        for index, entry in enumerate(volume.checkpoints[op].manifest.entries)
    )


def restored(
    volume: Volume, config: Config, incarnation: bytes, *, full: bool, new: bool = False
) -> tuple[Restored, bool]:
    """What the replica starts from, and whether it starts as one whose disk was replaced.

    A disk without any readable superblock was wiped, or the very first write after a wipe was torn
    and the operator wiped again; unless the cluster is `new` and waits for its genesis.
    """
    superblock = volume.newest()
    if superblock is None:
        if full:
            read_nothing(volume)
        volume.reset()
        if new:
            return Restored(Empty(), incarnation=incarnation), False
        return Restored(Empty(), incarnation=incarnation, wiped=True), True
    scan = scan_of(volume, superblock.checkpoint_op)
    if full:
        superblock = read_superblock(volume)
        scan = read_journal(volume, config, scan, superblock.checkpoint_op)
    checkpoint: Checkpoint | None = None
    if superblock.checkpoint_op:
        checkpoint = volume.checkpoints[superblock.checkpoint_op]
    keep_scanned(volume, scan)
    if full and journals.ring_after(scan) != ring_image(volume):
        raise Violation("fidelity", f"the ring of group {config.group} is written differently")
    return Restored(superblock, scan, checkpoint, incarnation), superblock.wiped


def scan_of(volume: Volume, checkpoint_op: int = 0) -> JournalScan:
    """The classification of the records without their bytes: what `journal.scan` would say."""
    records: list[JournalRecord] = []
    gaps: list[Gap] = []
    unnamed = False
    for record in volume.records:
        record.known_bad = not record.is_good
        if record.header_bad and record.trailer_bad:
            # There is no way to say what this was; several in a row are one gap.
            if not unnamed:
                gaps.append(Gap(len(records)))
            unnamed = True
            continue
        unnamed = False
        header = record.header
        if record.header_bad:
            gaps.append(Gap(len(records), header.op, header.checksum, header.view))
        else:
            records.append(JournalRecord(header, not record.body_bad))
    named = {one.checksum: one for one in volume.ring if one.checksum not in volume.rotten_slots}
    if not any(header.checksum in volume.rotten_slots for header in volume.ring):
        # Whatever was synced behind a record that the ring has, the ring has too.
        last = {record.header.checksum: n for n, record in enumerate(records) if record.readable}
        oldest = min((n for key, n in last.items() if key in named), default=len(records))
        gaps = [gap._replace(covered=not gap.op and oldest < gap.after) for gap in gaps]
    ring = {key: header for key, header in named.items() if header.op > checkpoint_op}
    while records and not records[-1].readable and records[-1].header.checksum not in ring:
        records.pop()
    found = {record.header.checksum for record in records}
    return JournalScan(
        tuple(records),
        tuple(gap for gap in gaps if gap.after < len(records)),
        redundant=tuple(header for identity, header in ring.items() if identity not in found),
    )


def keep_scanned(volume: Volume, scan: JournalScan) -> None:
    """What a driver does before it starts a replica: cut the tail, bring the ring up to date."""
    left, kept = len(scan.records), 0
    for index, record in enumerate(volume.records):
        if not left:
            break
        if not record.header_bad:
            left -= 1
        kept = index + 1
    named = {gap.identity for gap in scan.gaps}
    if any(header.checksum not in named for header in scan.redundant):
        # A rotten tail stays where it is: the only witness once the ring has gone round.
        kept = len(volume.records)
    volume.reindex(kept)
    # Records before a gap without a name stay out: the ring must not seem to cover it.
    open_gaps = [gap.after for gap in scan.gaps if not gap.op and not gap.covered]
    start = max(open_gaps, default=0)
    start = max(start, len(scan.records) + len(scan.redundant) - RING_SLOTS)
    volume.ring = [*scan.redundant, *(record.header for record in scan.records[start:])]
    volume.rotten_slots.clear()
    volume.torn = b""


def read_journal(
    volume: Volume, config: Config, expected: JournalScan, checkpoint_op: int = 0
) -> JournalScan:
    """Scans the bytes; they must tell the same story as the values."""
    image = b"".join(record.image or b"" for record in volume.records) + volume.torn
    scan = journals.scan(
        image, config.cluster, ring_image(volume), checkpoint_op=checkpoint_op, ring_covers=True
    )
    told = [(header, readable) for header, readable, _ in scan.records]
    if (
        told != [(header, readable) for header, readable, _ in expected.records]
        or scan.gaps != expected.gaps
        or scan.redundant != expected.redundant
    ):
        raise Violation("fidelity", f"a scan of the journal of group {config.group} differs")
    return scan


def ring_image(volume: Volume) -> bytes:
    image = bytearray(encode_ring(volume.ring))
    for number, header in enumerate(volume.ring):
        if header.checksum in volume.rotten_slots:
            image[slot_position(number) + 100] ^= 1
    return bytes(image)


def read_superblock(volume: Volume) -> Superblock:
    found = superblocks.decode(superblock_image(volume))
    if found != volume.newest() or not isinstance(found, Superblock):
        raise Violation("fidelity", f"the superblock reads as {found!r}")
    return found


def read_nothing(volume: Volume) -> None:
    """A disk without a superblock: never written, or torn the first time."""
    found = superblocks.decode(superblock_image(volume))
    if not isinstance(found, Unreadable if any(volume.generations) else Empty):
        raise Violation("fidelity", f"an empty disk reads as {found!r}")


def superblock_image(volume: Volume) -> bytes:
    slots = bytearray(superblocks.SLOTS * superblocks.SLOT_BYTES)
    for generation in volume.generations:
        if generation is None:
            continue
        image = superblocks.encode(generation.superblock)
        start = superblocks.slot_position(generation.superblock.generation)
        for copy in range(2):
            position = start + copy * superblocks.SLOT_BYTES
            slots[position : position + len(image)] = image
            if not generation.copies >> copy & 1:
                slots[position + 40] ^= 0x10
    return bytes(slots)
