"""From a client's batch to a stored one: duplicates out, bodies encrypted, messages stamped.

The order matters: a duplicate gets no offset, and the checksum covers what is stored. Stamping
happens once, on the owner of the partition; the stamped bytes are what every replica appends.
"""

from asyncio import Future
from dataclasses import dataclass

import msgspec

from borzoi.model.errors import StorageFailure
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.encrypting import encrypted
from borzoi.partitions.log import Log
from borzoi.records.batch import Batch, NewIds, keep, stamp
from borzoi.security.encryption import Cipher


class Stamped(msgspec.Struct, frozen=True):
    """A batch with offsets, timestamps, ids and checksums, in the form that is stored."""

    batch: Batch
    #: The one that all of its messages carry.
    timestamp: int


@dataclass(frozen=True, slots=True)
class Appender:
    """How batches get into one log."""

    log: Log
    new_ids: NewIds
    deduplicator: Deduplicator | None = None
    cipher: Cipher | None = None

    def append(self, batch: Batch, *, now: int) -> "Future[None] | None":
        """None when the messages are acknowledged at the log's level, else what to wait for."""
        if self.deduplicator is None:
            stamped = self.stamp(batch, now)
            return self.log.append(stamped.batch, timestamp=stamped.timestamp)
        ids = batch.ids()
        fresh = self.deduplicator.admit(ids, now)
        if fresh is not None:
            batch = keep(batch, fresh)
            ids = ids[fresh]
        admitted = ids.tobytes()  # a copy: the buffer is the caller's again after the append
        if not len(batch):
            # Only duplicates. Their first copies may still be on their way to the disk.
            return self.log.barrier()
        try:
            stamped = self.stamp(batch, now)
            waiter = self.log.append(stamped.batch, timestamp=stamped.timestamp)
        except StorageFailure:
            self.deduplicator.withdraw(admitted)
            raise
        if waiter is not None:
            waiter.add_done_callback(lambda stored: self._withdraw_if_failed(stored, admitted))
        elif fresh is not None:
            return self.log.barrier()
        return waiter

    def stamp(self, batch: Batch, now: int) -> Stamped:
        """Encrypt the batch if the server does, and give its messages their place in the log.

        The batch is changed in place. It must be appended next: the offsets follow the log's end.
        """
        log = self.log
        log.ensure_writable()
        if self.cipher is not None:
            batch = encrypted(batch, self.cipher)
        # Clocks are set back now and then; a log that is searched by time must not be.
        timestamp = max(now, log.last_timestamp)
        stamp(batch, base_offset=log.next_offset, timestamp=timestamp, new_ids=self.new_ids)
        return Stamped(batch, timestamp)

    def _withdraw_if_failed(self, stored: "Future[None]", ids: bytes) -> None:
        """A retry of messages that were not stored must not be taken for a duplicate."""
        assert self.deduplicator is not None
        if not stored.cancelled() and stored.exception() is not None:
            self.deduplicator.withdraw(ids)
