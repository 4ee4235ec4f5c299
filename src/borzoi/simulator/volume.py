"""What one group of one node has on its disk: journal, superblock, checkpoints, and their damage.

A write is first in the page cache and then, one fsync later, on the disk. A crash cuts the unsynced
journal at a random record (that one may be torn at any byte) and decides for a pending superblock
whether it was lost, torn or applied.

Records are kept as values at both fidelities; the full level also keeps their bytes and reads only
those after a restart.
"""

from random import Random
from typing import Final

import msgspec

from borzoi.consensus.checkpoint import Checkpoint
from borzoi.consensus.header_ring import RING_SLOTS
from borzoi.consensus.journal import record_bytes
from borzoi.consensus.messages import HEADER_BYTES, Prepare
from borzoi.consensus.superblock import Superblock
from borzoi.simulator.randomness import happens

SUPERBLOCK_COPIES: Final = 2


class Record(msgspec.Struct, eq=False):
    """One journal record as it lies on the disk; `image` only at full fidelity."""

    header: Prepare
    body: bytes
    image: bytes | None
    header_bad: bool = False
    body_bad: bool = False
    trailer_bad: bool = False
    known_bad: bool = False

    @property
    def is_good(self) -> bool:
        return not (self.header_bad or self.body_bad)

    @property
    def space(self) -> int:
        return record_bytes(HEADER_BYTES + len(self.body))


class Generation(msgspec.Struct, eq=False):
    """One superblock generation: two copies, each good or bad."""

    superblock: Superblock
    copies: int


class Volume(msgspec.Struct, eq=False):
    """What one group of one node has on its disk."""

    records: list[Record] = []
    found: dict[bytes, Record] = {}
    #: Headers of records that were whole on this disk once, in the order of their syncs.
    ring: list[Prepare] = []
    #: Identities whose slot of the ring is corrupt; cleared when the ring is rewritten.
    rotten_slots: set[bytes] = msgspec.field(default_factory=set)
    unsynced: list[tuple[Record, int]] = []
    syncing: int = 0
    #: How many of the last records a power cut left behind: no start has named them yet.
    spared: int = 0
    #: Leftover bytes of a record cut in the middle; only the full level has them to show.
    torn: bytes = b""
    #: Generation g lies in pair g mod 2, so that writing it never touches generation g - 1.
    generations: list[Generation | None] = msgspec.field(default_factory=lambda: [None, None])
    pending_superblock: Superblock | None = None
    checkpoints: dict[int, Checkpoint] = {}
    pending_checkpoints: dict[int, Checkpoint] = {}
    #: Where a checkpoint has a wrong bit: artifact and share of its length.
    rotten: dict[int, tuple[int, float]] = {}
    #: Records that were synced and then overwritten by a device that missed its aim, since the
    #: start: only the device knows.
    destroyed: set[bytes] = msgspec.field(default_factory=set)
    #: Ops whose record once could not be read though nothing is wrong with it, or which a lying
    #: device lost: this replica can no longer confirm them.
    doubted: set[int] = msgspec.field(default_factory=set)
    #: Grows with every crash and wipe.
    life: int = 0
    #: The longest unsynced queue seen, for the resource check.
    worst: int = 0

    def newest(self) -> Superblock | None:
        """The superblock that a start would find; asked for with every frame that names a view."""
        even, odd = self.generations
        if even is None or not even.copies:
            return odd.superblock if odd is not None and odd.copies else None
        if odd is None or not odd.copies or odd.superblock.generation < even.superblock.generation:
            return even.superblock
        return odd.superblock

    def is_damaged(self) -> bool:
        """Whether a record is spoiled and not written again, a gap without a name is left, or a
        checkpoint has rotted."""
        return (
            bool(self.rotten)
            or any(not record.is_good for record in self.found.values())
            or any(record.trailer_bad for record in self.records)
        )

    def is_synced(self, checksum: bytes) -> bool:
        """Whether the device said so, and the replica has no way to know better yet."""
        return checksum in self.found or checksum in self.destroyed

    def format(self, superblock: Superblock) -> None:
        self._apply_superblock(superblock, (1 << SUPERBLOCK_COPIES) - 1)

    def reset(self) -> None:
        self.records, self.found, self.ring, self.torn = [], {}, [], b""
        self.rotten_slots.clear()
        self.spared = 0
        self.generations = [None, None]
        self.checkpoints, self.rotten = {}, {}

    def _store(self, record: Record) -> None:
        self.records.append(record)
        self.found[record.header.checksum] = record

    def _apply_superblock(self, superblock: Superblock, copies: int) -> None:
        self.generations[superblock.generation % 2] = Generation(superblock, copies)

    def synced_journal(self, count: int) -> list[tuple[Record, int]]:
        """The first `count` queued records, which are on the disk now, with their tokens."""
        batch, self.unsynced = self.unsynced, self.unsynced[count:]
        del batch[count:]
        records, found, ring = self.records, self.found, self.ring
        for record, _ in batch:
            header = record.header
            records.append(record)
            found[header.checksum] = record
            ring.append(header)
        if len(ring) > RING_SLOTS:
            del ring[:-RING_SLOTS]
        self.syncing = 0
        return batch

    def synced_superblock(self) -> None:
        if self.pending_superblock is not None:
            self._apply_superblock(self.pending_superblock, (1 << SUPERBLOCK_COPIES) - 1)
            self.pending_superblock = None

    def truncate(self, below: int) -> None:
        """Files are recycled whole, from the oldest on: stop at the first record still needed."""
        dropped = 0
        for record in self.records[:-1]:
            # An unreadable header does not keep a file alive.
            if record.header.op >= below and not record.header_bad:
                break
            if self.found.get(record.header.checksum) is record:
                del self.found[record.header.checksum]
            dropped += 1
        if dropped:
            del self.records[:dropped]

    def drop_checkpoints(self, below: int) -> None:
        for op in [op for op in self.checkpoints if op < below]:
            del self.checkpoints[op]
            self.rotten.pop(op, None)

    def read_checkpoint(self, op: int, artifact: int) -> bytes | None:
        checkpoint = self.checkpoints.get(op)
        if checkpoint is None or artifact >= len(checkpoint.artifacts):
            return None
        content = checkpoint.artifacts[artifact].content
        if op in self.rotten and self.rotten[op][0] == artifact:
            position = int(self.rotten[op][1] * len(content))
            content = content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :]
        return content

    def rewrite(self) -> None:
        """Fresh files without the damage that was there at the start.

        Only that: a record that rotted since is copied as it is. The replica does not know of it
        yet, and would take an op it acknowledged for one it never had.
        """
        self.records = [record for record in self.records if not record.known_bad]
        self.found = {record.header.checksum: record for record in self.records}

    def power_cut(self, random: Random) -> list[Record]:
        """Keeps a prefix of the unsynced journal, which it returns; the next may be torn."""
        self.life += 1
        self.torn = b""
        kept: list[Record] = []
        if self.unsynced:
            cut = random.randint(0, len(self.unsynced))
            share = random.random()
            kept = [record for record, _ in self.unsynced[:cut]]
            for record in kept:
                self._store(record)
            self.spared += cut
            if cut < len(self.unsynced):
                self._tear(self.unsynced[cut][0], share)
            self.unsynced = []
        self.syncing = 0
        if self.pending_superblock is not None:
            # Lost; torn in the first or in both copies of its pair; or complete.
            copies = random.choice((None, 0, 2, 3))
            if copies is not None:
                self._apply_superblock(self.pending_superblock, copies)
            self.pending_superblock = None
        for op, checkpoint in sorted(self.pending_checkpoints.items()):
            if happens(random, 0.5):
                self.checkpoints[op] = checkpoint
        self.pending_checkpoints = {}
        return kept

    def _tear(self, record: Record, share: float) -> None:
        """Leaves the first bytes of a record, which the next start cuts off (S5).

        But not those of a record that was written again, if its header is whole: the ring names it
        since the first time, so it looks like a rotten one, and stays one.
        """
        length = int((HEADER_BYTES + len(record.body)) * share)
        identity = record.header.checksum
        is_named = identity not in self.rotten_slots and any(
            header.checksum == identity for header in self.ring
        )
        if length >= HEADER_BYTES and is_named:
            # One wrong byte represents all that are missing: the result is the same.
            record.body_bad = True
            spoil(record, length)
            self.records.append(record)
            self.spared += 1
            self.found.setdefault(identity, record)
        elif record.image is not None:
            self.torn = record.image[:length]

    def lose(self, record: Record) -> None:
        """The device reported this record as written, and its place holds what was there before."""
        record.header_bad = record.body_bad = record.trailer_bad = True
        self.doubted.add(record.header.op)
        if record.image is not None:
            record.image = bytes(len(record.image))

    def misdirect(self, record: Record, victim: int) -> None:
        """The record went to the place of an older one of at least its size, and not to its own."""
        older = self.records[victim]
        arrived = Record(record.header, record.body, record.image)
        remains = Record(older.header, b"", None)
        remains.header_bad = remains.body_bad = True
        replaced = [arrived]
        if older.space > arrived.space:
            if older.image is not None and arrived.image is not None:
                remains.image = older.image[len(arrived.image) :]
            replaced.append(remains)
        self.records[victim : victim + 1] = replaced
        self.found[older.header.checksum] = remains
        self.destroyed.add(older.header.checksum)
        self.doubted.add(older.header.op)
        self.lose(record)

    def reindex(self, kept: int) -> None:
        """At a start: only the first `kept` records are left, and whatever is readable is found."""
        self.doubted |= {record.header.op for record in self.records[kept:]}
        del self.records[kept:]
        self.spared = 0
        self.destroyed.clear()
        self.found = {record.header.checksum: record for record in self.records}
        self.found |= {one.header.checksum: one for one in self.records if one.is_good}


def spoil(record: Record, position: int) -> None:
    if record.image is not None:
        image = bytearray(record.image)
        image[position] ^= 0x40
        record.image = bytes(image)
