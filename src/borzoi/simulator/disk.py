"""The disk of one node: when a write is durable, and what the device does instead.

The journal writer takes everything queued, syncs once and reports the batch; superblock and
checkpoints sync on their own. What lies on the disk is the business of its volumes.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from borzoi.consensus.checkpoint import Checkpoint
from borzoi.consensus.messages import Prepare
from borzoi.consensus.superblock import Superblock
from borzoi.simulator.events import EventQueue
from borzoi.simulator.randomness import happens
from borzoi.simulator.rot import rot_candidates
from borzoi.simulator.volume import Record, Volume

SLOW_SYNC_TICKS: Final = 500


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
                for index in rot_candidates(volume, self.number, self.replicas)
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
