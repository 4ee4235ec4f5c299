"""The interface of an object store.

One store per shard process; every method is a coroutine on that shard's event loop. `put` is an
atomic replacement that reads and listings see at once. `create` is atomic: of any number of
concurrent callers exactly one succeeds. `create` may raise `Ambiguous`; call it through
`creating.create_once`, which resolves that.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from borzoi.model.value import Value

Buffer: TypeAlias = bytes | bytearray | memoryview

MIB: Final = 1024 * 1024
#: Stores refuse smaller parts, except for the last one.
PART_BYTES_MIN: Final = 5 * MIB
PART_BYTES_DEFAULT: Final = 8 * MIB
PARTS_MAX: Final = 10_000
#: Keys of one page of a listing, and of one bulk deletion.
PAGE_KEYS_MAX: Final = 1_000
#: Ranges of one object that are closer than this are read with one request.
COALESCED_BYTES: Final = 64 * 1024


class ObjectMeta(Value):
    """The metadata of an object."""

    key: str
    size: int
    #: As the store sends it, quotes included; never parsed.
    etag: str | None = None
    #: Microseconds since 1970.
    modified_at: int = 0


class PutOutcome(Value):
    """The result of a write."""

    etag: str | None
    size: int
    parts: int = 1


class ObjectData(Value):
    """A whole object."""

    data: memoryview
    meta: ObjectMeta


class MultipartUpload(Protocol):
    """An object that appears atomically when all of its parts are uploaded.

    Parts have one size, except for the last one, which may be smaller. After a failure or `abort`
    nothing is left in the store.
    """

    async def part(self, data: Buffer) -> None:
        """Send the next part; may wait for earlier ones."""
        ...

    async def complete(self) -> PutOutcome: ...

    async def abort(self) -> None:
        """Abort, and leave nothing behind; may be called again."""
        ...


class ObjectStore(Protocol):
    """Objects by key."""

    async def put(self, key: str, data: Buffer) -> PutOutcome:
        """Write or replace an object."""
        ...

    async def create(self, key: str, data: Buffer) -> PutOutcome:
        """Write an object; `ObjectExists` if the key is taken."""
        ...

    def open_multipart(
        self, key: str, *, part_size: int = PART_BYTES_DEFAULT, concurrency: int = 3
    ) -> MultipartUpload:
        """Begin an upload in parts; no request is sent before the first part."""
        ...

    async def get(self, key: str) -> ObjectData: ...

    async def get_range(self, key: str, start: int, end: int) -> memoryview:
        """Return exactly the bytes [start, end); `RangeOutOfBounds` if the object is shorter. An
        empty range needs no request."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return several ranges, in their order; close ones share a request."""
        ...

    async def get_suffix(self, key: str, length: int) -> tuple[memoryview, int]:
        """Return the last `length` bytes, or all if there are fewer, and the size of the object."""
        ...

    async def head(self, key: str) -> ObjectMeta: ...

    async def list_page(self, prefix: str, *, start_after: str = "") -> Sequence[ObjectMeta]:
        """Return the first keys that begin with `prefix` and are greater than `start_after`.

        Keys of one folder are sorted; so are folders, unless one's name is a prefix of another's.
        An empty page is the end; `listing.list_objects` iterates over all pages.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; no error if there is none."""
        ...

    async def delete_many(self, keys: Sequence[str]) -> list[str]:
        """Delete objects; return the keys that could not be deleted."""
        ...

    async def close(self) -> None:
        """Close the store; it must not be used afterwards."""
        ...
