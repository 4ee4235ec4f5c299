"""Opens an `ObjectLog`: replay it, fence off earlier writers, continue after them."""

import asyncio
from collections import deque
from typing import Final, Protocol

from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import Fenced
from borzoi.objectstore.headers import HEADER_BYTES, Header, ObjectKind, encode_header
from borzoi.objectstore.object_log import (
    INFLIGHT_DEFAULT,
    LogAddress,
    LogCheckpoint,
    ObjectLog,
    Slot,
    WriterEnvironment,
    newest_checkpoint,
    read_slot,
    write_checkpoint,
)

#: Slots that are read ahead while a log is replayed.
PREFETCHED: Final = 32


class Replayed(Protocol):
    """The state that a log is replayed into."""

    def restore(self, body: bytes | None) -> None:
        """Reset to the state of a checkpoint, or to empty, discarding what was replayed."""
        ...

    def replay(self, slot: Slot) -> None:
        """Apply the next slot."""
        ...

    def snapshot(self) -> bytes:
        """Return the body of a checkpoint of the replayed state."""
        ...


class Opener:
    """Opens one log for one writer epoch."""

    def __init__(
        self,
        place: LogAddress,
        epoch: int,
        source: WriterEnvironment,
        state: Replayed,
        *,
        prefetched: int = PREFETCHED,
    ) -> None:
        self._place = place
        self._epoch = epoch
        self._source = source
        self._state = state
        self._prefetched = prefetched

    async def open(self, *, inflight_max: int = INFLIGHT_DEFAULT) -> ObjectLog:
        """Replay, fence, and get ready to append; `Fenced` when a higher epoch was here."""
        while True:
            base = await newest_checkpoint(self._place)
            self._refuse_newer(base)
            self._state.restore(base.body if base else None)
            fence = await self._replay_and_fence(base.next_sequence if base else 0)
            newest = await newest_checkpoint(self._place)
            self._refuse_newer(newest)
            if self._is_stable(base, newest, fence):
                break
        first = fence + self._jump()
        checkpoint = await write_checkpoint(
            self._place, self._epoch, self._source, first, self._state.snapshot()
        )
        return ObjectLog(
            self._place,
            self._epoch,
            self._source,
            next_sequence=first,
            checkpoint=checkpoint,
            inflight_max=inflight_max,
        )

    async def _replay_and_fence(self, sequence: int) -> int:
        """Replay from `sequence` up to our own fence, which is written at the first free slot."""
        slots = _Prefetch(self._place, self._prefetched)
        try:
            while True:
                slot = await slots.read(sequence)
                if slot is None:
                    if await self._fence(sequence):
                        return sequence
                    slots.forget()
                    continue  # another writer was first: read its slot
                header = slot.header
                if header.epoch > self._epoch:
                    raise Fenced(
                        f"epoch {header.epoch} has taken over from {self._epoch}",
                        op="open",
                        key=self._place.slot_key(sequence),
                    )
                if header.kind is not ObjectKind.FENCE:
                    self._state.replay(slot)
                    sequence += 1
                elif header.epoch == self._epoch:
                    return sequence
                else:
                    sequence = header.mark
        finally:
            slots.forget()

    async def _fence(self, sequence: int) -> bool:
        """Write a fence into a slot so that no earlier writer can use it; False if it is taken."""
        header = Header(
            kind=ObjectKind.FENCE,
            log_id=self._place.log_id,
            sequence=sequence,
            epoch=self._epoch,
            nonce=self._source.nonce(),
            created_at=self._source.now(),
            mark=sequence + self._jump(),
        )
        try:
            await create_once(
                self._place.store,
                self._place.slot_key(sequence),
                encode_header(header),
                compared=HEADER_BYTES,
                attempts=None,
                sleep=self._source.sleep,
            )
        except Taken:
            return False
        return True

    def _jump(self) -> int:
        """Skip every slot that an earlier writer may still have in flight."""
        return self._place.window

    def _refuse_newer(self, found: LogCheckpoint | None) -> None:
        if found is not None and found.epoch > self._epoch:
            raise Fenced(
                f"epoch {found.epoch} has taken over from {self._epoch}", op="open", key=found.key
            )

    def _is_stable(
        self, base: LogCheckpoint | None, newest: LogCheckpoint | None, fence: int
    ) -> bool:
        """Whether the checkpoint of the replay is still the newest after fencing.

        A newer checkpoint would have allowed its writer to delete slots, so a slot found missing
        may have been committed.
        """
        return (base and base.key) == (newest and newest.key)


class _Prefetch:
    """Reads slots ahead; they are still processed in order.

    A slot that was absent when read ahead is read again when it is needed.
    """

    def __init__(self, place: LogAddress, ahead: int) -> None:
        self._place = place
        self._ahead = ahead
        self._reads: deque[tuple[int, asyncio.Task[Slot | None]]] = deque()

    async def read(self, sequence: int) -> Slot | None:
        if self._reads and self._reads[0][0] != sequence:
            self.forget()
        if not self._reads:
            slot = await read_slot(self._place, sequence)
            if slot is not None:
                self._read_ahead(sequence + 1)
            return slot
        slot = await self._reads.popleft()[1]
        if slot is None:
            self.forget()
            return await read_slot(self._place, sequence)
        self._read_ahead(sequence + 1)
        return slot

    def forget(self) -> None:
        for _, task in self._reads:
            if not task.cancel() and not task.cancelled():
                task.exception()  # retrieved: a slot that was not needed
        self._reads.clear()

    def _read_ahead(self, sequence: int) -> None:
        first = self._reads[-1][0] + 1 if self._reads else sequence
        for number in range(first, sequence + self._ahead):
            self._reads.append((number, asyncio.create_task(read_slot(self._place, number))))
