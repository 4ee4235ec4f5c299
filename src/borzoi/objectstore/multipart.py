"""Gathers appended bytes into parts of a legal size; a small object becomes one plain PUT."""

from enum import StrEnum

import xxhash

from borzoi.objectstore.bounds import PartShape
from borzoi.objectstore.errors import Corrupt, ObjectStoreError, RangeOutOfBounds
from borzoi.objectstore.interface import (
    PART_BYTES_DEFAULT,
    PARTS_MAX,
    Buffer,
    MultipartUpload,
    ObjectStore,
    PutOutcome,
)


class WriterState(StrEnum):
    NEW = "new"
    UPLOADING = "uploading"
    SEALED = "sealed"
    ABORTED = "aborted"
    FAILED = "failed"


class BufferedMultipartWriter:
    """One object, written from its first byte to its last.

    The upload begins when the first part is full, so an object below `part_size` never opens one.
    At most `concurrency + 1` parts are in memory: those being sent, one that waits and one that is
    being filled. After a failure or `abort` nothing is left in the store. For use by one task:
    append, append, …, then seal or abort.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        *,
        part_size: int = PART_BYTES_DEFAULT,
        concurrency: int = 3,
    ) -> None:
        PartShape(key, part_size)  # rejects what a store would reject, before anything is sent
        self._store = store
        self._key = key
        self._part_size = part_size
        assert concurrency > 1
        self._sent_at_once = concurrency - 1
        self._pending = bytearray()
        self._upload: MultipartUpload | None = None
        self._hash = xxhash.xxh3_64()
        self.state = WriterState.NEW
        self.bytes_appended = 0
        self.parts_uploaded = 0

    @property
    def checksum(self) -> int:
        """xxh3-64 of everything appended so far."""
        return self._hash.intdigest()

    async def append(self, data: Buffer) -> None:
        """Append bytes; waits while too many parts are in flight.

        The buffer must not change before the writer is sealed: whole parts are not copied.
        """
        self._check_open()
        if self.bytes_appended + len(data) > self._part_size * PARTS_MAX:
            raise RangeOutOfBounds(
                f"{PARTS_MAX} parts of {self._part_size} bytes do not hold this object",
                op="append",
                key=self._key,
            )
        self._hash.update(data)
        self.bytes_appended += len(data)
        view = memoryview(data)
        if self._pending:
            missing = self._part_size - len(self._pending)
            self._pending += view[:missing]
            view = view[missing:]
            if len(self._pending) == self._part_size:
                part, self._pending = self._pending, bytearray()
                await self._send(part)
        while len(view) >= self._part_size:
            await self._send(view[: self._part_size])
            view = view[self._part_size :]
        self._pending += view

    async def seal(self) -> PutOutcome:
        """Complete the object; its size is checked if the store returns no ETag."""
        self._check_open()
        if not self.bytes_appended:
            raise RangeOutOfBounds("an empty object cannot be sealed", op="seal", key=self._key)
        try:
            if self._upload is None:
                outcome = await self._store.put(self._key, bytes(self._pending))
                self.parts_uploaded = 1
            else:
                if self._pending:
                    await self._upload.part(bytes(self._pending))
                    self.parts_uploaded += 1
                outcome = await self._upload.complete()
            self._pending = bytearray()
            await self._check_size(outcome)
        except BaseException:
            await self._fail()
            raise
        self.state = WriterState.SEALED
        return PutOutcome(outcome.etag, self.bytes_appended, self.parts_uploaded)

    async def abort(self) -> None:
        """Abort; may be called at any time, and again."""
        if self.state in (WriterState.NEW, WriterState.UPLOADING):
            self.state = WriterState.ABORTED
            await self._clear()

    async def _send(self, part: Buffer) -> None:
        if self._upload is None:
            self._upload = self._store.open_multipart(
                self._key, part_size=self._part_size, concurrency=self._sent_at_once
            )
            self.state = WriterState.UPLOADING
        try:
            await self._upload.part(part)
        except BaseException:
            await self._fail()
            raise
        self.parts_uploaded += 1

    async def _fail(self) -> None:
        self.state = WriterState.FAILED
        await self._clear()

    async def _clear(self) -> None:
        self._pending = bytearray()
        if self._upload is not None:
            await self._upload.abort()

    async def _check_size(self, outcome: PutOutcome) -> None:
        if outcome.etag:
            return
        found = await self._store.head(self._key)
        if found.size != self.bytes_appended:
            raise Corrupt(
                f"{self.bytes_appended} bytes were sent and {found.size} arrived",
                op="seal",
                key=self._key,
            )

    def _check_open(self) -> None:
        if self.state not in (WriterState.NEW, WriterState.UPLOADING):
            raise ObjectStoreError(f"the writer is {self.state}", op="append", key=self._key)
