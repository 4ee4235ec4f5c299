"""From a client's batch to a stored one: duplicates out, bodies encrypted, messages stamped.

The order matters: a duplicate gets no offset, and the checksum covers what is stored. Stamping
happens once, on the owner of the partition; the stamped bytes are what every replica appends.
"""

from asyncio import Future
from collections.abc import Iterator
from typing import Final

import numpy as np

from borzoi.model.errors import StorageFailure
from borzoi.model.value import Value
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.encrypting import encrypted, encrypting
from borzoi.partitions.log import Log
from borzoi.partitions.turns import Work
from borzoi.records.batch import Batch, NewIds, keep, stamp
from borzoi.security.encryption import Cipher

#: Larger batches are appended in pieces, each in its own turn: a piece takes a few milliseconds.
#: Where each message is processed separately (encryption, deduplication) a piece has a sixteenth of
#: the messages.
PIECE_MESSAGES_MAX: Final = 16_384
PIECE_BYTES_MAX: Final = 8 << 20


class Stamped(Value):
    """A batch with offsets, timestamps, ids and checksums, in the form that is stored."""

    batch: Batch
    #: The one that all of its messages carry.
    timestamp: int


class Appender(Value):
    """How batches get into one log."""

    log: Log
    new_ids: NewIds
    deduplicator: Deduplicator | None = None
    cipher: Cipher | None = None

    def append(self, batch: Batch, now: int, *, is_part: bool = False) -> "Future[None] | None":
        """Return None if the messages are acknowledged at the log's level, else a future.

        A batch that `is_part` of a send is encrypted already.
        """
        log = self.log
        if self.deduplicator is None and self.cipher is None:
            return log.append(batch, self._stamp(batch, now), is_part)
        if self.deduplicator is None:
            stamped = self.stamp(batch, now, is_encrypted=is_part)
            return log.append(stamped.batch, timestamp=stamped.timestamp, is_part=is_part)
        ids = batch.ids()
        fresh = self.deduplicator.admit(ids, now)
        if fresh is not None:
            batch = keep(batch, fresh)
            ids = ids[fresh]
        assert len(ids) == len(batch), "each message that is kept has one id to withdraw"
        admitted = ids.tobytes()  # a copy: the buffer is the caller's again after the append
        if not len(batch):
            # Only duplicates. Their first copies may not be on the disk yet.
            return self.log.barrier()
        try:
            stamped = self.stamp(batch, now, is_encrypted=is_part)
            waiter = log.append(stamped.batch, timestamp=stamped.timestamp, is_part=is_part)
        except StorageFailure:
            self.deduplicator.withdraw(admitted)
            raise
        if waiter is not None:
            waiter.add_done_callback(lambda stored: self._withdraw_if_failed(stored, admitted))
        elif fresh is not None:
            return self.log.barrier()
        return waiter

    def pieces(self, batch: Batch) -> Iterator[Batch]:
        """Yield a batch in pieces that can be appended quickly."""
        first, ends, messages_max = 0, batch.ends, self.piece_messages_max
        while first < batch.count:
            start = int(ends[first - 1]) if first else 0
            fitting = int(np.searchsorted(ends, start + PIECE_BYTES_MAX, side="right"))
            last = min(max(fitting, first + 1), first + messages_max)
            yield batch.part(first, last)
            first = last

    def appending(self, piece: Batch, *, now: int) -> "Work[Future[None] | None]":
        """Append a piece share by share, because a single message may be of any size. Nothing else
        may be appended meanwhile."""
        if self.cipher is not None:
            piece = yield from encrypting(piece, self.cipher)
        if piece.size <= PIECE_BYTES_MAX or self.deduplicator is not None:
            return self.append(piece, now=now, is_part=True)
        stamped = self.stamp(piece, now, is_encrypted=True)
        yield from self.log.write_ahead(stamped.batch)
        return self.log.append(stamped.batch, timestamp=stamped.timestamp, is_part=True)

    @property
    def piece_messages_max(self) -> int:
        plain = self.cipher is None and self.deduplicator is None
        return PIECE_MESSAGES_MAX if plain else PIECE_MESSAGES_MAX // 16

    def stamp(self, batch: Batch, now: int, *, is_encrypted: bool = False) -> Stamped:
        """Encrypt the batch if that is due, and stamp its messages with their offsets.

        The batch is changed in place. It must be appended next: the offsets follow the log's end.
        """
        if self.cipher is not None and not is_encrypted:
            self.log.ensure_writable()
            batch = encrypted(batch, self.cipher)
        return Stamped(batch, self._stamp(batch, now))

    def _stamp(self, batch: Batch, now: int) -> int:
        """Give the messages their place in the log; the timestamp they got."""
        log = self.log
        log.ensure_writable()
        # A clock may be set back, but timestamps in a log must ascend for searches.
        timestamp = now if now > log.last_timestamp else log.last_timestamp
        stamp(batch, log.next_offset, timestamp, self.new_ids)
        return timestamp

    def _withdraw_if_failed(self, stored: "Future[None]", ids: bytes) -> None:
        """Forget ids that were not stored: a retry is not a duplicate."""
        assert self.deduplicator is not None
        if not stored.cancelled() and stored.exception() is not None:
            self.deduplicator.withdraw(ids)
