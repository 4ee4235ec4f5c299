"""Object stores behind obstore: S3 and what speaks its protocol, Google Cloud Storage, Azure.

Quirks of obstore that callers must not see, and where they are handled:

    409 arrives as "already exists", in every mode                   `translating`
    its own retries make a create collide with itself                `_once` never retries
    time-outs, resets and 5xx are one exception                      `translating`
    a range past the end is shortened                                `bounds.exact`
    of several ranges, one past the end panics                       `get_ranges` joins them itself
    a missing key is a FileNotFoundError, on some stores of a
    delete as well                                                   `translating`, `delete`
    a cancelled multipart put leaves the upload open, an exception
    from its source closes it                                        `_Upload`
    ending the process right after a call aborts it                  `close`
    it does not survive a fork                                       one store per process
    a server that ignores ranges is an error                         `translating`
    ETags come quoted                                                they are never parsed
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import obstore
from obstore.exceptions import BaseError, NotSupportedError

from borzoi.objectstore.bounds import PartShape, coalesced, exact
from borzoi.objectstore.errors import ObjectNotFound, ObjectStoreError
from borzoi.objectstore.interface import (
    COALESCED_BYTES,
    PAGE_KEYS_MAX,
    PART_BYTES_DEFAULT,
    Buffer,
    MultipartUpload,
    ObjectData,
    ObjectMeta,
    PutOutcome,
)
from borzoi.objectstore.keys import checked_key, checked_prefix
from borzoi.objectstore.translating import translated

T = TypeVar("T")

#: Long enough for the library's threads to release the interpreter before it ends.
QUIESCE_SECONDS: Final = 0.05
LISTINGS_KEPT_MAX: Final = 16
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ObstoreStore:
    """An obstore store in borzoi's terms.

    `once` must not retry: the caller has to know whether a write was sent once. `bulk` may, and
    uploads in parts, where resending a part is harmless.
    """

    def __init__(self, once: Any, bulk: Any, *, is_ordered: bool = True) -> None:
        self._once = once
        self._bulk = bulk
        #: Whether listings are sorted by key; those of a directory are not.
        self._is_ordered = is_ordered
        self._process = os.getpid()
        #: Unfinished listings by prefix and last returned key.
        self._listings: dict[tuple[str, str], AsyncIterator[Sequence[Any]]] = {}

    async def put(self, key: str, data: Buffer) -> PutOutcome:
        done = await self._ask(
            "put",
            key,
            obstore.put_async(self._once, checked_key(key), data, use_multipart=False),
        )
        return PutOutcome(done["e_tag"], len(data))

    async def create(self, key: str, data: Buffer) -> PutOutcome:
        done = await self._ask(
            "create", key, obstore.put_async(self._once, checked_key(key), data, mode="create")
        )
        return PutOutcome(done["e_tag"], len(data))

    def open_multipart(
        self, key: str, *, part_size: int = PART_BYTES_DEFAULT, concurrency: int = 3
    ) -> MultipartUpload:
        return _Upload(self._bulk, checked_key(key), part_size, concurrency)

    async def get(self, key: str) -> ObjectData:
        found = await self._ask("get", key, obstore.get_async(self._once, checked_key(key)))
        data = memoryview(await self._ask("get", key, found.bytes_async()))
        return ObjectData(data, _meta(found.meta))

    async def get_range(self, key: str, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        found = await self._ask(
            "get_range",
            key,
            obstore.get_range_async(self._once, checked_key(key), start=start, end=end),
        )
        return exact(memoryview(found), key, start, end)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        spans = coalesced(ranges, COALESCED_BYTES)
        found = await asyncio.gather(*(self.get_range(key, start, end) for start, end in spans))
        whole = list(zip(spans, found, strict=True))
        return [_cut(whole, start, end) for start, end in ranges]

    async def get_suffix(self, key: str, length: int) -> tuple[memoryview, int]:
        try:
            found = await self._ask(
                "get_suffix",
                key,
                obstore.get_async(
                    self._once, checked_key(key), options={"range": {"suffix": length}}
                ),
            )
        except _NoSuffixes:
            # Azure has no such request.
            size = (await self.head(key)).size
            return await self.get_range(key, max(size - length, 0), size), size
        data = memoryview(await self._ask("get_suffix", key, found.bytes_async()))
        return data, found.meta["size"]

    async def head(self, key: str) -> ObjectMeta:
        return _meta(await self._ask("head", key, obstore.head_async(self._once, checked_key(key))))

    async def list_page(self, prefix: str, *, start_after: str = "") -> Sequence[ObjectMeta]:
        # The library lists folders; the rest of the prefix is compared here.
        folder = checked_prefix(prefix).rpartition("/")[0]
        listing = obstore.list(
            self._once,
            folder or None,
            offset=start_after or None,
            chunk_size=PAGE_KEYS_MAX,
        )
        if not self._is_ordered:
            everything = await self._ask("list", prefix, listing.collect_async())
            wanted = [_meta(found) for found in everything if found["path"].startswith(prefix)]
            return sorted(wanted, key=lambda meta: meta.key)[:PAGE_KEYS_MAX]
        resumed = self._listings.pop((prefix, start_after), None)
        for chunks in filter(None, (resumed, _chunks(listing, prefix))):
            async for chunk in chunks:
                page = [_meta(found) for found in chunk if found["path"].startswith(prefix)]
                if page:
                    self._keep(prefix, chunks, page)
                    return page
        return []

    async def delete(self, key: str) -> None:
        try:
            await self._ask("delete", key, obstore.delete_async(self._once, checked_key(key)))
        except ObjectNotFound:
            pass

    async def delete_many(self, keys: Sequence[str]) -> list[str]:
        failed: list[str] = []
        for first in range(0, len(keys), PAGE_KEYS_MAX):
            chunk = [checked_key(key) for key in keys[first : first + PAGE_KEYS_MAX]]
            try:
                await self._ask("delete_many", chunk[0], obstore.delete_async(self._once, chunk))
            except ObjectNotFound:
                # The rest of the chunk may or may not be deleted: retry one by one.
                failed += [key for key in chunk if not await self._is_deleted(key)]
            except ObjectStoreError:
                failed += chunk
        return failed

    async def close(self) -> None:
        await asyncio.sleep(QUIESCE_SECONDS)

    def _keep(
        self, prefix: str, chunks: AsyncIterator[Sequence[Any]], page: Sequence[ObjectMeta]
    ) -> None:
        """Keep the listing for the next page instead of starting another.

        SeaweedFS sorts the folder `a` before `a-b`, so a listing that starts after a key of `a`
        would miss `a-b`.
        """
        if len(page) == PAGE_KEYS_MAX:
            self._listings[prefix, page[-1].key] = chunks
        while len(self._listings) > LISTINGS_KEPT_MAX:
            del self._listings[next(iter(self._listings))]

    async def _is_deleted(self, key: str) -> bool:
        try:
            await self.delete(key)
        except ObjectStoreError:
            return False
        return True

    async def _ask(self, op: str, key: str, request: Awaitable[T]) -> T:
        assert os.getpid() == self._process, "a store does not survive a fork: open one per process"
        try:
            return await request
        except NotSupportedError as fault:
            raise _NoSuffixes(str(fault), op=op, key=key) from fault
        except (BaseError, FileNotFoundError, OSError, ValueError) as fault:
            raise translated(fault, op=op, key=key) from fault


class _NoSuffixes(ObjectStoreError):
    """The store cannot read from the end."""


class _GivenUp(Exception):
    """Raised in the source of an upload: the only way to make the library abort it."""


class _Upload:
    """Feeds parts to the library, which pulls them one after another."""

    def __init__(self, store: Any, key: str, part_size: int, concurrency: int) -> None:
        self._store = store
        self._key = key
        self._part_size = part_size
        self._concurrency = concurrency
        self._shape = PartShape(key, part_size)
        #: The part that the library takes next; the sender waits until it has.
        self._next: asyncio.Queue[Buffer | None] = asyncio.Queue(maxsize=1)
        self._given_up = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    async def part(self, data: Buffer) -> None:
        self._shape.check(len(data))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"upload {self._key}")
        await self._hand_over(data)

    async def complete(self) -> PutOutcome:
        assert self._task is not None, "an upload has at least one part"
        await self._hand_over(None)
        # The library must not be cancelled; the waiting task may be.
        done = await asyncio.shield(self._task)
        return PutOutcome(done["e_tag"], self._shape.size, self._shape.count)

    async def abort(self) -> None:
        self._given_up.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # retrieved: the abort that we requested

    async def _run(self) -> Any:
        try:
            return await obstore.put_async(
                self._store,
                self._key,
                self._parts(),
                use_multipart=True,
                chunk_size=self._part_size,
                max_concurrency=self._concurrency,
            )
        except (BaseError, OSError, ValueError) as fault:
            raise translated(fault, op="part", key=self._key) from fault

    async def _parts(self) -> AsyncIterator[Buffer]:
        while (data := await self._taken()) is not None:
            yield data

    async def _taken(self) -> Buffer | None:
        """Return the next part, unless the upload is aborted first."""
        taking = asyncio.ensure_future(self._next.get())
        stopping = asyncio.ensure_future(self._given_up.wait())
        await asyncio.wait([taking, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._given_up.is_set():
            taking.cancel()
            raise _GivenUp
        self._next.task_done()
        return taking.result()

    async def _given(self, data: Buffer | None) -> None:
        await self._next.put(data)
        await self._next.join()

    async def _hand_over(self, data: Buffer | None) -> None:
        """Wait until the library has taken the part or has failed."""
        assert self._task is not None
        giving = asyncio.ensure_future(self._given(data))
        try:
            await asyncio.wait([giving, self._task], return_when=asyncio.FIRST_COMPLETED)
            if not giving.done():
                await asyncio.shield(self._task)
                raise ObjectStoreError("the upload has ended", op="part", key=self._key)
        finally:
            giving.cancel()


async def _chunks(listing: Any, prefix: str) -> AsyncIterator[Sequence[Any]]:
    try:
        async for chunk in listing:
            yield chunk
    except (BaseError, FileNotFoundError, OSError) as fault:
        raise translated(fault, op="list", key=prefix) from fault


def _cut(whole: list[tuple[tuple[int, int], memoryview]], start: int, end: int) -> memoryview:
    """Cut a range out of the one that was read."""
    for (first, last), data in whole:
        if first <= start and end <= last:
            return data[start - first : end - first]
    return memoryview(b"")


def _meta(found: Any) -> ObjectMeta:
    modified_at = (found["last_modified"] - EPOCH) // _MICROSECOND
    return ObjectMeta(found["path"], found["size"], found["e_tag"], modified_at)


_MICROSECOND: Final = datetime.resolution
