"""A store around a store: every request passes one method, `around`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from borzoi.objectstore.interface import (
    PART_BYTES_DEFAULT,
    Buffer,
    MultipartUpload,
    ObjectData,
    ObjectMeta,
    ObjectStore,
    PutOutcome,
)

T = TypeVar("T")


class StoreDecorator:
    """Forwards every request to `store`; subclasses do something around it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        """Make the request. `size` is how many bytes it sends, or wants."""
        return await request()

    async def put(self, key: str, data: Buffer) -> PutOutcome:
        return await self.around("put", key, len(data), lambda: self._store.put(key, data))

    async def create(self, key: str, data: Buffer) -> PutOutcome:
        return await self.around("create", key, len(data), lambda: self._store.create(key, data))

    def open_multipart(
        self, key: str, *, part_size: int = PART_BYTES_DEFAULT, concurrency: int = 3
    ) -> MultipartUpload:
        upload = self._store.open_multipart(key, part_size=part_size, concurrency=concurrency)
        return _DecoratedUpload(self, key, upload)

    async def get(self, key: str) -> ObjectData:
        return await self.around("get", key, 0, lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        return await self.around(
            "get_range", key, end - start, lambda: self._store.get_range(key, start, end)
        )

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        wanted = sum(end - start for start, end in ranges)
        return await self.around(
            "get_ranges", key, wanted, lambda: self._store.get_ranges(key, ranges)
        )

    async def get_suffix(self, key: str, length: int) -> tuple[memoryview, int]:
        return await self.around(
            "get_suffix", key, length, lambda: self._store.get_suffix(key, length)
        )

    async def head(self, key: str) -> ObjectMeta:
        return await self.around("head", key, 0, lambda: self._store.head(key))

    async def list_page(self, prefix: str, *, start_after: str = "") -> Sequence[ObjectMeta]:
        return await self.around(
            "list_page", prefix, 0, lambda: self._store.list_page(prefix, start_after=start_after)
        )

    async def delete(self, key: str) -> None:
        await self.around("delete", key, 0, lambda: self._store.delete(key))

    async def delete_many(self, keys: Sequence[str]) -> list[str]:
        return await self.around(
            "delete_many", keys[0] if keys else "", 0, lambda: self._store.delete_many(keys)
        )

    async def close(self) -> None:
        await self._store.close()


class _DecoratedUpload:
    def __init__(self, store: StoreDecorator, key: str, upload: MultipartUpload) -> None:
        self._store = store
        self._key = key
        self._upload = upload

    async def part(self, data: Buffer) -> None:
        await self._store.around("part", self._key, len(data), lambda: self._upload.part(data))

    async def complete(self) -> PutOutcome:
        return await self._store.around("complete", self._key, 0, self._upload.complete)

    async def abort(self) -> None:
        await self._upload.abort()
