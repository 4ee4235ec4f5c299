import os

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from tests.objectstore.test_decorating import Noting
from tests.support.fault_proxy import fault_proxy

from borzoi.objectstore.errors import (
    Corrupt,
    ObjectStoreError,
    PartSizeTooSmall,
    RangeOutOfBounds,
    Unavailable,
)
from borzoi.objectstore.interface import MIB, PART_BYTES_MIN, ObjectMeta, ObjectStore, PutOutcome
from borzoi.objectstore.locations import Location, open_store
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.multipart import BufferedMultipartWriter, WriterState


def written(store: ObjectStore, **keywords) -> BufferedMultipartWriter:
    return BufferedMultipartWriter(store, "k", part_size=PART_BYTES_MIN, **keywords)


@given(st.lists(st.integers(0, 12 * MIB), max_size=5))
async def test_however_it_is_cut_the_object_is_the_same(sizes: list[int]) -> None:
    store = Noting(MemoryStore())
    writer = written(store)
    data = [bytes([number]) * size for number, size in enumerate(sizes)]
    for piece in data:
        await writer.append(piece)
    whole = b"".join(data)
    assert writer.checksum == xxhash.xxh3_64_intdigest(whole)
    if not whole:
        with pytest.raises(RangeOutOfBounds):
            await writer.seal()
        return
    outcome = await writer.seal()
    assert bytes((await store.get("k")).data) == whole
    parts = [size for op, _, size in store.noted if op == "part"]
    if len(whole) < PART_BYTES_MIN:
        assert parts == []
        assert ("put", "k", len(whole)) in store.noted
    else:
        assert set(parts[:-1]) <= {PART_BYTES_MIN}
        assert 0 < parts[-1] <= PART_BYTES_MIN
    assert (outcome.size, outcome.parts) == (len(whole), max(len(parts), 1))
    assert writer.state is WriterState.SEALED


async def test_a_small_object_is_one_put_and_opens_no_upload(moto: Location) -> None:
    async with fault_proxy(moto.endpoint) as proxy:
        store = open_store(
            Location("s3", moto.bucket, moto.prefix, proxy.endpoint, secrets=moto.secrets)
        )
        writer = BufferedMultipartWriter(store, "small")
        await writer.append(b"x" * 1000)
        outcome = await writer.seal()
        assert [line.split("?")[0].split(" ")[0] for line in proxy.seen] == ["PUT"]
        assert "uploads" not in proxy.seen[0]
        assert outcome.etag is not None
        assert outcome.etag.startswith('"')
        assert outcome.etag.endswith('"')
        proxy.seen.clear()
        writer = BufferedMultipartWriter(store, "large", part_size=PART_BYTES_MIN)
        await writer.append(os.urandom(2 * PART_BYTES_MIN))
        outcome = await writer.seal()
        assert sorted(line.split(" ")[0] for line in proxy.seen) == ["POST", "POST", "PUT", "PUT"]
        assert outcome.etag is not None
        assert outcome.etag.startswith('"')
        await store.close()


async def test_aborting_leaves_nothing_and_may_be_repeated() -> None:
    store = MemoryStore()
    for size in (0, 10, 2 * PART_BYTES_MIN):
        writer = written(store)
        await writer.append(bytes(size))
        await writer.abort()
        await writer.abort()
        assert writer.state is WriterState.ABORTED
        assert await store.list_page("") == []
        with pytest.raises(ObjectStoreError, match="aborted"):
            await writer.append(b"1")


async def test_a_part_that_fails_ends_the_writer_and_its_upload() -> None:
    aborted = []

    class Failing(MemoryStore):
        def open_multipart(self, key, **keywords):
            upload = super().open_multipart(key, **keywords)

            async def part(data):
                raise Unavailable("down")

            async def abort():
                aborted.append(key)

            upload.part, upload.abort = part, abort  # type: ignore[method-assign]
            return upload

    writer = written(Failing())
    with pytest.raises(Unavailable):
        await writer.append(bytes(PART_BYTES_MIN))
    assert (writer.state, aborted) == (WriterState.FAILED, ["k"])
    await writer.abort()
    assert writer.state is WriterState.FAILED
    with pytest.raises(ObjectStoreError, match="failed"):
        await writer.seal()


async def test_too_small_parts_and_too_large_objects_are_refused() -> None:
    with pytest.raises(PartSizeTooSmall):
        BufferedMultipartWriter(MemoryStore(), "k", part_size=PART_BYTES_MIN - 1)
    writer = written(MemoryStore())
    writer.bytes_appended = PART_BYTES_MIN * 10_000
    with pytest.raises(RangeOutOfBounds):
        await writer.append(b"1")


async def test_the_size_is_looked_at_when_the_store_gives_no_etag() -> None:
    class Tagless(MemoryStore):
        size = 5

        async def put(self, key, data):
            await super().put(key, data)
            return PutOutcome(None, len(data))

        async def head(self, key):
            return ObjectMeta(key, self.size)

    store = Tagless()
    writer = written(store)
    await writer.append(b"12345")
    await writer.seal()
    store.size = 4
    writer = written(store)
    await writer.append(b"12345")
    with pytest.raises(Corrupt, match="5 bytes were sent and 4 arrived"):
        await writer.seal()
