"""The one place where fencing happens: a log of numbered objects that are created, never changed.

Everything that must be neither lost nor forked is such a log. The store only needs an atomic create
and consistent listings. The rules:

    create-only   A slot is written with `create`, and the object is never modified.
    nonce         After an answer that says "exists", or none, the slot is read: the same nonce
                  means it is ours.
    window        A writer never writes `WINDOW` or more past its first unconfirmed slot.
    in order      A slot counts as committed when all slots of its writer before it are.
    jump          A fence in slot F sends its writer to F + WINDOW. Readers skip the slots in
                  between, where late writes of an earlier writer may land.
    fenced        A writer that finds another writer's object in its slot stops for good.
    permanent     Fences are never deleted: a late writer could create the slot again.
    trimming      A slot is deleted only when a durable checkpoint covers it.
    stable base   A replay is valid if, after fencing, the newest checkpoint is still the one that
                  it began with.

`log_opening.py` opens a log by these rules; here are the slots, and writing them.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from borzoi.model.value import Value
from borzoi.objectstore.creating import Sleep, Taken, create_once
from borzoi.objectstore.errors import Corrupt, Fenced, ObjectNotFound, ObjectStoreError
from borzoi.objectstore.headers import (
    HEADER_BYTES,
    Header,
    ObjectKind,
    decode_header,
    encode_header,
    with_checksum,
    without_checksum,
)
from borzoi.objectstore.interface import Buffer, ObjectMeta, ObjectStore
from borzoi.objectstore.listing import list_last, list_objects

#: Never change it: writers and readers of all versions must agree.
WINDOW: Final = 64
INFLIGHT_DEFAULT: Final = 8
CHECKPOINTS_KEPT: Final = 3


class WriterEnvironment(Protocol):
    """The environment of a writer: the time in µs, 16 random bytes, and pauses."""

    def now(self) -> int: ...

    def nonce(self) -> bytes: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemSource:
    """The clock, the randomness and the pauses of this machine."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def nonce(self) -> bytes:
        return secrets.token_bytes(16)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LogAddress(Value):
    """The location and the id of a log."""

    store: ObjectStore
    #: `…/log/{sequence:020}` and `…/ckpt/{epoch:010}-{sequence:020}` lie below it.
    prefix: str
    log_id: int
    window: int = WINDOW

    def slot_key(self, sequence: int) -> str:
        return f"{self.prefix}/log/{sequence:020}"

    def checkpoint_key(self, epoch: int, sequence: int) -> str:
        return f"{self.prefix}/ckpt/{epoch:010}-{sequence:020}"


class Slot(Value):
    """A slot as it was read."""

    header: Header
    body: memoryview


class LogCheckpoint(Value):
    """The state after all slots before `next_sequence`."""

    key: str
    epoch: int
    next_sequence: int
    body: bytes


class ObjectLog:
    """The writer of a log, from its opening until it is closed or fenced."""

    def __init__(
        self,
        place: LogAddress,
        epoch: int,
        source: WriterEnvironment,
        *,
        next_sequence: int,
        checkpoint: LogCheckpoint | None,
        inflight_max: int = INFLIGHT_DEFAULT,
    ) -> None:
        assert 0 < inflight_max <= place.window
        self._place = place
        self.epoch = epoch
        self._source = source
        self._inflight_max = inflight_max
        self._next = next_sequence
        #: The first slot that is not confirmed; everything before it is committed.
        self._committed = next_sequence
        self._confirmed: set[int] = set()
        self._acks: dict[int, asyncio.Future[int]] = {}
        self._queue: deque[tuple[Buffer, ObjectKind, int, int, asyncio.Future[int]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: ObjectStoreError | None = None
        #: The newest checkpoint that is known to be durable.
        self.checkpoint = checkpoint

    @property
    def committed(self) -> int:
        """The first slot of this writer that is not committed."""
        return self._committed

    @property
    def failure(self) -> ObjectStoreError | None:
        """Why the writer stopped, if it did."""
        return self._failure

    def append(
        self,
        body: Buffer,
        *,
        kind: ObjectKind = ObjectKind.WAL,
        run_count: int = 0,
        control_bytes: int = 0,
    ) -> "asyncio.Future[int]":
        """Write the next slot; the future has its number once it and all before it are committed.

        Slots follow the order of the calls. If the future fails, or is cancelled, the slot may
        still be written: the outcome is unknown until the log is opened again.
        """
        ack: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            ack.set_exception(self._failure)
            return ack
        assert len(body), "a slot without a body would look like a fence"
        self._queue.append((body, kind, run_count, control_bytes, ack))
        self._start()
        return ack

    async def write_checkpoint(self, body: Buffer, *, next_sequence: int) -> None:
        """Write `body` as the checkpoint of everything before `next_sequence`.

        The caller's state must include exactly the slots before that one, all committed.
        """
        assert next_sequence <= self._committed
        if self._failure is not None:
            raise self._failure
        self.checkpoint = await write_checkpoint(
            self._place, self.epoch, self._source, next_sequence, body
        )

    async def trim(self, *, keep: Callable[[int], bool] = lambda _: False) -> int:
        """Delete covered slots and old checkpoints; return how many slots.

        A slot is covered by a durable checkpoint. `keep` says which are still needed for their
        data.
        """
        if self._failure is not None:
            raise self._failure
        end = self._place.slot_key(self._trim_end())
        keys = []
        async for meta in list_objects(self._place.store, f"{self._place.prefix}/log/"):
            if meta.key >= end:
                break
            if self._is_trimmed(meta) and not keep(int(meta.key.rpartition("/")[2])):
                keys.append(meta.key)
        await self._place.store.delete_many(keys)
        await self._trim_checkpoints()
        return len(keys)

    async def close(self) -> None:
        """Wait for the slots in flight, then stop."""
        while self._tasks and self._failure is None:
            await asyncio.wait(self._tasks)
        self._stop(ObjectStoreError("the log is closed"))
        await self._finish_tasks()

    async def abandon(self) -> None:
        """Stop at once, as a crash would; slots in flight may or may not be written."""
        self._stop(ObjectStoreError("the log was abandoned"))
        await self._finish_tasks()

    # The rules, one function each. --------------------------------------------------------

    def _start(self) -> None:
        """Send as many slots as the window allows."""
        while self._queue and self._next - self._committed < self._inflight_max:
            body, kind, run_count, control_bytes, ack = self._queue.popleft()
            header = Header(
                kind=kind,
                log_id=self._place.log_id,
                sequence=self._next,
                epoch=self.epoch,
                nonce=self._source.nonce(),
                created_at=self._source.now(),
                mark=self._committed,
                body_bytes=len(body),
                run_count=run_count,
                control_bytes=control_bytes,
            )
            self._acks[self._next] = ack
            task = asyncio.create_task(self._write(header, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._next += 1

    async def _write(self, header: Header, body: Buffer) -> None:
        """Write a slot, however long it takes; only another writer's object stops it."""
        try:
            await create_slot(self._place, header, body, self._source.sleep)
        except ObjectStoreError as fault:
            self._stop(fault)
        else:
            self._confirm(header.sequence)

    def _confirm(self, sequence: int) -> None:
        """Commit in order: this slot, and those after it that are confirmed."""
        if self._failure is not None:
            return
        self._confirmed.add(sequence)
        while self._committed in self._confirmed:
            self._confirmed.remove(self._committed)
            ack = self._acks.pop(self._committed)
            self._committed += 1
            if not ack.done():
                ack.set_result(self._committed - 1)
        self._start()

    def _trim_end(self) -> int:
        """Return the first slot that must be kept."""
        return self.checkpoint.next_sequence if self.checkpoint else 0

    def _is_trimmed(self, meta: ObjectMeta) -> bool:
        """Keep fences: only they prevent a late writer from using their slot."""
        return meta.size > HEADER_BYTES

    async def _trim_checkpoints(self) -> None:
        found = [
            meta.key
            async for meta in list_objects(self._place.store, f"{self._place.prefix}/ckpt/")
        ]
        await self._place.store.delete_many(found[:-CHECKPOINTS_KEPT])

    def _stop(self, failure: ObjectStoreError) -> None:
        """Stop: nothing more is written or acknowledged."""
        if self._failure is not None:
            return
        self._failure = failure
        waiting = [*self._acks.values(), *(ack for *_, ack in self._queue)]
        self._acks.clear()
        self._queue.clear()
        for ack in waiting:
            if not ack.done():
                ack.set_exception(failure)
                ack.exception()  # retrieved: the caller may have been cancelled
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _finish_tasks(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)


# Slots and checkpoints in the store. --------------------------------------------------------------


async def create_slot(place: LogAddress, header: Header, body: Buffer, sleep: Sleep) -> None:
    """Write a slot; `Fenced` if another writer's object is there."""
    key = place.slot_key(header.sequence)
    encoded = encode_header(header)
    try:
        await create_once(
            place.store,
            key,
            encoded + body if len(body) else encoded,
            compared=HEADER_BYTES,
            attempts=None,
            sleep=sleep,
        )
    except Taken as taken:
        other = decode_header(taken.found, key=key)
        raise Fenced(
            f"the slot belongs to epoch {other.epoch}, and this writer has {header.epoch}",
            op="create",
            key=key,
        ) from taken


async def read_slot(place: LogAddress, sequence: int) -> Slot | None:
    """Read a slot with its body; None if it does not exist."""
    try:
        return await _read_slot(place, sequence)
    except Corrupt:
        # The bytes may have been damaged in transit: read once more before giving up.
        return await _read_slot(place, sequence)


async def _read_slot(place: LogAddress, sequence: int) -> Slot | None:
    key = place.slot_key(sequence)
    try:
        data = (await place.store.get(key)).data
    except ObjectNotFound:
        return None
    header = decode_header(data, key=key)
    body = data[HEADER_BYTES:]
    if (header.log_id, header.sequence) != (place.log_id, sequence):
        raise Corrupt(
            f"it says it is slot {header.sequence} of log {header.log_id}", op="get", key=key
        )
    if len(body) != header.body_bytes:
        raise Corrupt(f"{len(body)} bytes follow a header that says {header.body_bytes}", key=key)
    return Slot(header, body)


async def write_checkpoint(
    place: LogAddress, epoch: int, source: WriterEnvironment, next_sequence: int, body: Buffer
) -> LogCheckpoint:
    """Write a checkpoint; its key contains epoch and position, so each is written once."""
    checked = with_checksum(body)
    header = Header(
        kind=ObjectKind.CHECKPOINT,
        log_id=place.log_id,
        sequence=next_sequence,
        epoch=epoch,
        nonce=source.nonce(),
        created_at=source.now(),
        mark=next_sequence,
        body_bytes=len(checked),
    )
    key = place.checkpoint_key(epoch, next_sequence)
    try:
        await create_once(
            place.store,
            key,
            encode_header(header) + checked,
            compared=HEADER_BYTES,
            attempts=None,
            sleep=source.sleep,
        )
    except Taken:
        # A position of an epoch has exactly one state, so an existing checkpoint is identical.
        pass
    return LogCheckpoint(key, epoch, next_sequence, bytes(body))


async def newest_checkpoint(place: LogAddress) -> LogCheckpoint | None:
    """Return the checkpoint with the greatest key: highest epoch, then last slot."""
    while True:
        found = await list_last(place.store, f"{place.prefix}/ckpt/")
        if found is None:
            return None
        try:
            try:
                return await _read_checkpoint(place, found.key)
            except Corrupt:
                return await _read_checkpoint(place, found.key)  # as with slots
        except ObjectNotFound:
            continue  # replaced by a newer one and trimmed since


async def _read_checkpoint(place: LogAddress, key: str) -> LogCheckpoint:
    data = (await place.store.get(key)).data
    header = decode_header(data, key=key)
    body = without_checksum(data[HEADER_BYTES:], key=key)
    if header.log_id != place.log_id:
        raise Corrupt(f"it belongs to the log {header.log_id}", op="get", key=key)
    return LogCheckpoint(key, header.epoch, header.sequence, body)
