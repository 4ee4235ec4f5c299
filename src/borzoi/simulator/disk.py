"""The disk of one node: journal, superblock and checkpoints per group, and what a power cut leaves.

A write is first in the page cache and then, one fsync later, on the disk. The journal writer takes
everything queued, syncs once and reports the batch; superblock and checkpoints sync on their own.
A crash cuts the unsynced journal at a random record (that one may be torn at any byte) and decides
for a pending superblock whether it was lost, torn or applied.

Records are kept as values at both fidelities; the full level also keeps their bytes and reads only
those after a restart.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from borzoi.consensus.checkpoint import ArtifactKind, Checkpoint
from borzoi.consensus.header_ring import RING_SLOTS
from borzoi.consensus.journal import record_bytes
from borzoi.consensus.messages import HEADER_BYTES, Prepare
from borzoi.consensus.superblock import Superblock
from borzoi.simulator.events import EventQueue
from borzoi.simulator.randomness import happens

SLOW_SYNC_TICKS: Final = 500
SUPERBLOCK_COPIES: Final = 2
# Candidates for rot that a view change or the next start looks at first.
NEWEST: Final = 3


class Record:
    """One journal record as it lies on the disk; `image` only at full fidelity."""

    __slots__ = ("body", "body_bad", "header", "header_bad", "image", "known_bad", "trailer_bad")

    def __init__(self, header: Prepare, body: bytes, image: bytes | None) -> None:
        self.header = header
        self.body = body
        self.image = image
        self.header_bad = False
        self.body_bad = False
        self.trailer_bad = False
        self.known_bad = False

    @property
    def is_good(self) -> bool:
        return not (self.header_bad or self.body_bad)

    @property
    def space(self) -> int:
        return record_bytes(HEADER_BYTES + len(self.body))


class Generation:
    """One superblock generation: two copies, each good or bad."""

    __slots__ = ("copies", "superblock")

    def __init__(self, superblock: Superblock, copies: int) -> None:
        self.superblock = superblock
        self.copies = copies


class Volume:
    """What one group of one node has on its disk."""

    __slots__ = (
        "checkpoints", "destroyed", "doubted", "found", "generations", "life",
        "pending_checkpoints", "pending_superblock", "records", "ring", "rotten",
        "rotten_slots", "spared", "syncing", "torn", "unsynced", "worst",
    )  # fmt: skip

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.found: dict[bytes, Record] = {}
        # Headers of records that were whole on this disk once, in the order of their syncs.
        self.ring: list[Prepare] = []
        # Identities whose slot of the ring has rotted; forgotten when the ring is written anew.
        self.rotten_slots: set[bytes] = set()
        self.unsynced: list[tuple[Record, int]] = []
        self.syncing = 0
        # How many of the last records a power cut left behind: no start has named them yet.
        self.spared = 0
        # Leftover bytes of a record cut in the middle; only the full level has them to show.
        self.torn = b""
        # Generation g lies in pair g mod 2, so that writing it never touches generation g - 1.
        self.generations: list[Generation | None] = [None, None]
        self.pending_superblock: Superblock | None = None
        self.checkpoints: dict[int, Checkpoint] = {}
        self.pending_checkpoints: dict[int, Checkpoint] = {}
        # Where a checkpoint has a wrong bit: artifact and share of its length.
        self.rotten: dict[int, tuple[int, float]] = {}
        # Records that were synced and then overwritten by a device that missed its aim, since the
        # start: nobody but the device knows.
        self.destroyed: set[bytes] = set()
        # Ops whose record once could not be read though nothing is wrong with it, or which a lying
        # device lost: this replica cannot vouch for them any more.
        self.doubted: set[int] = set()
        # Grows with every crash and wipe.
        self.life = 0
        # The longest unsynced queue seen, for the resource check.
        self.worst = 0

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
            # A header nobody can read does not keep a file alive.
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

    def rot_checkpoint(self, random: Random) -> str | None:
        """Spoils a file of the checkpoint that the superblock names; says which kind."""
        newest = self.newest()
        if newest is None or not newest.checkpoint_op:
            return None
        artifacts = self.checkpoints[newest.checkpoint_op].artifacts
        candidates = [index for index, one in enumerate(artifacts) if one.content]
        index = random.choice(candidates)
        self.rotten[newest.checkpoint_op] = (index, random.random())
        is_segment = artifacts[index].kind == ArtifactKind.SEGMENT_LOG
        return "segment" if is_segment else "checkpoint"

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
        since the first time, so nobody can tell it from a rotten one, and it stays as such.
        """
        length = int((HEADER_BYTES + len(record.body)) * share)
        identity = record.header.checksum
        is_named = identity not in self.rotten_slots and any(
            header.checksum == identity for header in self.ring
        )
        if length >= HEADER_BYTES and is_named:
            # One wrong byte stands for all that are missing: the verdict is the same.
            record.body_bad = True
            spoil(record, length)
            self.records.append(record)
            self.spared += 1
            self.found.setdefault(identity, record)
        elif record.image is not None:
            self.torn = record.image[:length]

    def rot_candidates(self, replica: int, replicas: int) -> list[int]:
        """The fault atlas: op o may rot on replica o mod n only, so one good copy always remains.

        The newest record only if the ring names it: else it cannot be told from a torn one (S5),
        and being acknowledged it would be a fault that no format can see. What a power cut left
        behind only once a start has brought it into the ring, whatever lies behind it by then: a
        head of the log that has no name but in its trailer costs the replica its voice.
        """
        named = len(self.records) - self.spared
        candidates = [
            index
            for index, record in enumerate(self.records[:named])
            if record.header.op % replicas == replica and record.is_good
        ]
        if candidates and candidates[-1] == len(self.records) - 1:
            newest = self.records[-1].header.checksum
            if all(header.checksum != newest for header in reversed(self.ring)):
                candidates.pop()
        return candidates

    def may_lose_slot(self, index: int) -> bool:
        """Whether this record is still named when its header and its slot of the ring are gone.

        By its trailer, if something good lies behind it: else it cannot be told from a torn one.
        And by the next prepare of its log: without that one the log would end below an op that may
        have been acknowledged, and the replica would lose its voice. So it would where a record
        without a name needs the whole ring to speak for it.
        """
        newest = self.newest()
        if newest is None or any(one.trailer_bad for one in self.records):
            return False
        header, log_view = self.records[index].header, newest.log_view
        return header.view <= log_view and any(
            one.header.parent == header.checksum and one.header.view <= log_view and one.is_good
            for one in self.records[index + 1 : len(self.records) - self.spared]
        )

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


class Disk:
    """All volumes of one node, with the latency and the failures of one device."""

    def __init__(
        self,
        number: int,
        replicas: int,
        groups: int,
        events: EventQueue,
        random: Random,
        completed: Callable[[int, str, int], None],
        failed: Callable[[str], None],
    ) -> None:
        self.number = number
        self.replicas = replicas
        self.volumes = [Volume() for _ in range(groups)]
        self.sync_min = 1
        self.sync_max = 1
        self.sync_slow = 0.0
        self.stale_reads = 0.0
        self.lost_writes = 0.0
        self.slowness = 1
        self.rot_deep = False
        self.counts: Counter[str] = Counter()
        self._events = events
        self._random = random
        self._completed = completed
        self._failed = failed
        # Told about every record that reaches the disk, for the auditor.
        self.synced: Callable[[int, int, bytes], None] = lambda number, group, digest: None
        self._life = 0
        self._failure: str | None = None

    # -- writing -----------------------------------------------------------------------------------

    def _latency(self) -> int:
        if self.sync_slow and happens(self._random, self.sync_slow):
            self.counts["slow fsync"] += 1
            return SLOW_SYNC_TICKS
        span = self.sync_max - self.sync_min
        ticks = self.sync_min + (int(self._random.random() * (span + 1)) if span else 0)
        return ticks * self.slowness

    def write_journal(
        self, group: int, header: Prepare, body: bytes, token: int, image: bytes | None
    ) -> None:
        volume = self.volumes[group]
        unsynced = volume.unsynced
        unsynced.append((Record(header, body, image), token))
        if len(unsynced) > volume.worst:
            volume.worst = len(unsynced)
        if not volume.syncing:
            self._start_sync(group, volume)

    def _start_sync(self, group: int, volume: Volume) -> None:
        volume.syncing = len(volume.unsynced)
        self._events.after(
            self._latency(), self._journal_synced, (self._life, group, volume.syncing)
        )

    def _journal_synced(self, what: tuple[int, int, int]) -> None:
        life, group, count = what
        if life != self._life or self._fails():
            return
        volume = self.volumes[group]
        batch = volume.synced_journal(count)
        for record, _ in batch:
            self.synced(self.number, group, record.header.checksum)
        if self.lost_writes:
            self._betray(volume, len(volume.records) - count)
        if volume.unsynced:
            self._start_sync(group, volume)
        self._completed(group, "journal", batch[-1][1])

    def _betray(self, volume: Volume, first: int) -> None:
        """A device that lies about some of the records from `first` on; by the atlas of rot."""
        if volume.rotten_slots:
            # A lost record has no name but in a ring that is whole.
            return
        for record in volume.records[first:]:
            if record.header.op % self.replicas != self.number or self.replicas == 1:
                continue
            if not happens(self._random, self.lost_writes):
                continue
            victims = [
                index
                for index in volume.rot_candidates(self.number, self.replicas)
                if index < first and volume.records[index].space >= record.space
            ]
            if victims and happens(self._random, 0.5):
                self.counts["misdirected write"] += 1
                before = len(volume.records)
                volume.misdirect(record, self._random.choice(victims))
                first += len(volume.records) - before
            else:
                self.counts["lost write"] += 1
                volume.lose(record)

    def write_superblock(self, group: int, superblock: Superblock, token: int) -> None:
        volume = self.volumes[group]
        volume.pending_superblock = superblock
        self._events.after(self._latency(), self._superblock_synced, (self._life, group, token))

    def _superblock_synced(self, what: tuple[int, int, int]) -> None:
        life, group, token = what
        if life != self._life or self._fails():
            return
        self.volumes[group].synced_superblock()
        self._completed(group, "superblock", token)

    def write_checkpoint(self, group: int, op: int, checkpoint: Checkpoint, token: int) -> None:
        self.volumes[group].pending_checkpoints[op] = checkpoint
        self._events.after(self._latency(), self._checkpoint_synced, (self._life, group, op, token))

    def _checkpoint_synced(self, what: tuple[int, int, int, int]) -> None:
        life, group, op, token = what
        if life != self._life or self._fails():
            return
        volume = self.volumes[group]
        volume.checkpoints[op] = volume.pending_checkpoints.pop(op)
        self._completed(group, "checkpoint", token)

    # -- reading -----------------------------------------------------------------------------------

    def read_journal(self, group: int, checksum: bytes) -> bytes | None:
        volume = self.volumes[group]
        record = volume.found.get(checksum)
        if record is None:
            for unsynced, _ in volume.unsynced:
                if unsynced.header.checksum == checksum:
                    return unsynced.body
            return None
        # An old sector instead of the new one: the driver sees that it is not this record. By the
        # same atlas as rot, since the replica must take it for spoiled.
        may_be_stale = self.replicas > 1 and record.header.op % self.replicas == self.number
        if may_be_stale and record.is_good and happens(self._random, self.stale_reads):
            self.counts["stale read"] += 1
            volume.doubted.add(record.header.op)
            return None
        return record.body if record.is_good else None

    def read_later(self, group: int, action: Callable[[Any], None], argument: object) -> None:
        life = self._life
        delay = 1 if self._random.random() < 0.5 else 0

        def arrive(_: object) -> None:
            if life == self._life:
                action(argument)

        self._events.after(delay * self.slowness, arrive, None)

    # -- failing -----------------------------------------------------------------------------------

    def fail_next_sync(self, reason: str) -> None:
        self._failure = reason

    def _fails(self) -> bool:
        reason, self._failure = self._failure, None
        if reason is None:
            return False
        self.counts[reason] += 1
        self._failed(reason)
        return True

    def heal(self) -> None:
        """A sound device from now on; what has rotted stays rotten."""
        self._failure = None
        self.sync_max, self.sync_slow, self.slowness = self.sync_min, 0.0, 1
        self.stale_reads = self.lost_writes = 0.0

    def crash(self) -> None:
        self._life += 1
        self._failure = None
        for group, volume in enumerate(self.volumes):
            for record in volume.power_cut(self._random):
                self.synced(self.number, group, record.header.checksum)

    def wipe(self) -> None:
        self._life += 1
        self._failure = None
        lives = [volume.life for volume in self.volumes]
        self.volumes = [Volume() for _ in lives]
        for volume, life in zip(self.volumes, lives, strict=True):
            volume.life = life + 1

    def rot(self, random: Random) -> str | None:
        """Spoils something that a good copy elsewhere makes up for; None when there is nothing."""
        volume = random.choice(self.volumes)
        if happens(random, 0.15):
            return self._rot_superblock(volume, random)
        candidates = volume.rot_candidates(self.number, self.replicas)
        if not candidates or self.replicas < 2:
            return None
        if self.rot_deep and happens(random, 0.5):
            candidates = candidates[-NEWEST:]
        index = random.choice(candidates)
        record, spot = volume.records[index], random.random()
        if happens(random, 0.4):
            loses_slot = self.rot_deep and happens(random, 0.6) and volume.may_lose_slot(index)
            spoil_header(record, spot)
            if loses_slot:
                volume.rotten_slots.add(record.header.checksum)
                return "journal header and its copy"
            return "journal header"
        if not record.body:
            return None
        record.body_bad = True
        spoil(record, 256 + int(spot * len(record.body)))
        return "journal body"

    def rot_unnamed(self, random: Random) -> bool:
        """Spoils a header and its trailer, so that nobody can say which op this was.

        Such a replica cannot tell what it acknowledged and loses its vote (S5): that is as bad as
        a lost disk, and is dealt out with the same care.
        """
        volume = random.choice(self.volumes)
        if len(volume.records) < 2:
            return False
        index = random.randrange(len(volume.records) - 1)
        if self.rot_deep and happens(random, 0.25):
            index = 0
        record = volume.records[index]
        spoil_header(record, random.random())
        record.trailer_bad = True
        slot = record.header
        if self.rot_deep and happens(random, 0.5):
            slot = random.choice(volume.ring or [slot])
        if happens(random, 0.7):
            volume.rotten_slots.add(slot.checksum)
        if record.image is not None:
            spoil(record, len(record.image) - 40)
        if self.rot_deep and happens(random, 0.4) and index + 2 < len(volume.records):
            # Its neighbour is hit too, and still has its trailer.
            neighbour = volume.records[index + 1]
            if not neighbour.header_bad:
                spoil_header(neighbour, random.random())
        return True

    def _rot_superblock(self, volume: Volume, random: Random) -> str | None:
        newest = volume.newest()
        pair = volume.generations[newest.generation % 2] if newest is not None else None
        if pair is None or pair.copies != 3:
            return None
        pair.copies = random.choice((1, 2))
        return "superblock copy"


def spoil_header(record: Record, spot: float) -> None:
    record.header_bad = True
    spoil(record, 16 + int(spot * 240))


def spoil(record: Record, position: int) -> None:
    if record.image is not None:
        image = bytearray(record.image)
        image[position] ^= 0x40
        record.image = bytes(image)
