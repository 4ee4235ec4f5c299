"""Opening an `ObjectLog`: replay what is there, fence off earlier writers, go on after them."""

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

#: Slots that are asked for before their turn while a log is replayed.
PREFETCHED: Final = 32


class Replayed(Protocol):
    """The state a log is about."""

    def restore(self, body: bytes | None) -> None:
        """Become what a checkpoint says, or empty; whatever was replayed before is void."""
        ...

    def replay(self, slot: Slot) -> None:
        """Take the next slot."""
        ...

    def snapshot(self) -> bytes:
        """The body of a checkpoint of what was replayed."""
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
        """Replay, fence, and be ready to append; `Fenced` when a higher epoch was here."""
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
        """Replay from `sequence` on up to our own fence, which is made at the first free slot."""
        slots = _Prefetch(self._place, self._prefetched)
        try:
            while True:
                slot = await slots.read(sequence)
                if slot is None:
                    if await self._fence(sequence):
                        return sequence
                    slots.forget()
                    continue  # another writer was first: see what it wrote
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
        """Take a slot so that no earlier writer can; False when one of them has it."""
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
        """Past every slot that an earlier writer may still have in flight."""
        return self._place.window

    def _refuse_newer(self, found: LogCheckpoint | None) -> None:
        if found is not None and found.epoch > self._epoch:
            raise Fenced(
                f"epoch {found.epoch} has taken over from {self._epoch}", op="open", key=found.key
            )

    def _is_stable(
        self, base: LogCheckpoint | None, newest: LogCheckpoint | None, fence: int
    ) -> bool:
        """Whether replay began with the checkpoint that is still the newest after fencing.

        A checkpoint that appeared meanwhile allows its writer to delete slots, so a slot that was
        found missing may have been committed.
        """
        return (base and base.key) == (newest and newest.key)


class _Prefetch:
    """Reads slots ahead of the one that is wanted; they are still decided on in order.

    A slot that was absent when it was read ahead is read again in its turn.
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
                task.exception()  # seen: a slot nobody came to need
        self._reads.clear()

    def _read_ahead(self, sequence: int) -> None:
        first = self._reads[-1][0] + 1 if self._reads else sequence
        for number in range(first, sequence + self._ahead):
            self._reads.append((number, asyncio.create_task(read_slot(self._place, number))))
