"""From a client's batch to the stored one: duplicates out, bodies encrypted, messages numbered.

The order matters: a duplicate gets no offset, and the checksum covers what is stored.
"""

from dataclasses import dataclass
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.encrypting import encrypted
from borzoi.records.batch import Batch, NewIds, keep, stamp
from borzoi.records.fresh_ids import BLOCK, FreshIds
from borzoi.security.encryption import Cipher
from borzoi.storage.commits import Waiter, running_loop
from borzoi.storage.log import SegmentedLog

#: From so many messages on their ids are made ahead: for fewer there are nearly always some left.
MANY: Final = 64


@dataclass(frozen=True, slots=True)
class Appender:
    """How batches get into one log."""

    log: SegmentedLog
    new_ids: NewIds
    deduplicator: Deduplicator | None = None
    cipher: Cipher | None = None

    def append(self, batch: Batch, *, now: int) -> Waiter | None:
        """None when the messages are acknowledged at the log's level, else what to wait for."""
        if self.deduplicator is None:
            return self._store(batch, now)
        ids = batch.ids()
        fresh = self.deduplicator.admit(ids, now)
        if fresh is not None:
            batch = keep(batch, fresh)
            ids = ids[fresh]
        admitted = ids.tobytes()  # a copy: the buffer is the caller's again after the append
        try:
            # A batch of nothing but duplicates waits for their first copies, which may still be on
            # their way to the disk.
            waiter = self._store(batch, now) if len(batch) else self.log.barrier()
        except StorageFailure:
            self.deduplicator.withdraw(admitted)
            raise
        if waiter is not None and len(batch):
            waiter.add_done_callback(lambda stored: self._withdraw_if_failed(stored, admitted))
        elif fresh is not None and waiter is None:
            return self.log.barrier()
        return waiter

    def _store(self, batch: Batch, now: int) -> Waiter | None:
        log = self.log
        log.ensure_writable()
        if self.cipher is not None:
            batch = encrypted(batch, self.cipher)
        # Clocks are set back now and then; a log that is searched by time must not be.
        timestamp = max(now, log.last_timestamp)
        stamp(batch, base_offset=log.next_offset, timestamp=timestamp, new_ids=self.new_ids)
        waiter = log.append(batch, timestamp=timestamp)
        if batch.count >= MANY:
            self._prepare_ids(batch.count)
        return waiter

    def _prepare_ids(self, count: int) -> None:
        """Have the ids of the next batch like this made when this one is answered."""
        ids = self.new_ids
        if isinstance(ids, FreshIds) and count <= BLOCK and ids.lack(count):
            loop = running_loop()
            if loop is not None:
                loop.call_soon(ids.prepare, count)

    def _withdraw_if_failed(self, stored: Waiter, ids: bytes) -> None:
        """A retry of messages that were not stored must not be taken for a duplicate."""
        assert self.deduplicator is not None
        if not stored.cancelled() and stored.exception() is not None:
            self.deduplicator.withdraw(ids)
