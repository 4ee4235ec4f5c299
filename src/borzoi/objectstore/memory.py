"""Objects in the memory of this process: for tests, and as the reference implementation."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import count

from borzoi.objectstore.bounds import PartShape, exact
from borzoi.objectstore.errors import ObjectExists, ObjectNotFound
from borzoi.objectstore.interface import (
    PAGE_KEYS_MAX,
    PART_BYTES_DEFAULT,
    Buffer,
    MultipartUpload,
    ObjectData,
    ObjectMeta,
    PutOutcome,
)
from borzoi.objectstore.keys import checked_key, checked_prefix


class MemoryStore:
    """Every call does its work before its first await, so it is atomic on its event loop."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, ObjectMeta]] = {}
        self._keys: list[str] = []
        self._versions = count(1)

    async def put(self, key: str, data: Buffer) -> PutOutcome:
        return self._store(checked_key(key), bytes(data))

    async def create(self, key: str, data: Buffer) -> PutOutcome:
        if checked_key(key) in self._objects:
            raise ObjectExists("the object exists", op="create", key=key)
        return self._store(key, bytes(data))

    def open_multipart(
        self, key: str, *, part_size: int = PART_BYTES_DEFAULT, concurrency: int = 3
    ) -> MultipartUpload:
        return _MemoryUpload(self, checked_key(key), part_size)

    async def get(self, key: str) -> ObjectData:
        data, meta = self._find(key, "get")
        return ObjectData(memoryview(data), meta)

    async def get_range(self, key: str, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        data, _ = self._find(key, "get_range")
        return exact(memoryview(data)[start:end], key, start, end)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [await self.get_range(key, start, end) for start, end in ranges]

    async def get_suffix(self, key: str, length: int) -> tuple[memoryview, int]:
        data, meta = self._find(key, "get_suffix")
        return memoryview(data)[max(meta.size - length, 0) :], meta.size

    async def head(self, key: str) -> ObjectMeta:
        return self._find(key, "head")[1]

    async def list_page(self, prefix: str, *, start_after: str = "") -> Sequence[ObjectMeta]:
        first = bisect_left(self._keys, checked_prefix(prefix))
        if start_after:
            first = max(first, bisect_right(self._keys, start_after))
        page = []
        for key in self._keys[first : first + PAGE_KEYS_MAX]:
            if not key.startswith(prefix):
                break
            page.append(self._objects[key][1])
        return page

    async def delete(self, key: str) -> None:
        if self._objects.pop(checked_key(key), None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    async def delete_many(self, keys: Sequence[str]) -> list[str]:
        for key in keys:
            await self.delete(key)
        return []

    async def close(self) -> None:
        pass

    def _store(self, key: str, data: bytes, parts: int = 1) -> PutOutcome:
        etag = f'"{next(self._versions)}"'
        if key not in self._objects:
            insort(self._keys, key)
        self._objects[key] = data, ObjectMeta(key, len(data), etag)
        return PutOutcome(etag, len(data), parts)

    def _find(self, key: str, op: str) -> tuple[bytes, ObjectMeta]:
        try:
            return self._objects[checked_key(key)]
        except KeyError:
            raise ObjectNotFound("there is no such object", op=op, key=key) from None


class _MemoryUpload:
    def __init__(self, store: MemoryStore, key: str, part_size: int) -> None:
        self._store = store
        self._key = key
        self._shape = PartShape(key, part_size)
        self._parts: list[bytes] = []

    async def part(self, data: Buffer) -> None:
        self._shape.check(len(data))
        self._parts.append(bytes(data))

    async def complete(self) -> PutOutcome:
        return self._store._store(self._key, b"".join(self._parts), len(self._parts))

    async def abort(self) -> None:
        self._parts.clear()
