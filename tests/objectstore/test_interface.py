"""What every store has to do, whatever is behind it."""

import asyncio
import os

import pytest

from borzoi.objectstore.errors import (
    InvalidKey,
    ObjectExists,
    ObjectNotFound,
    PartSizeTooSmall,
    RangeOutOfBounds,
)
from borzoi.objectstore.interface import MIB, PART_BYTES_MIN, ObjectStore
from borzoi.objectstore.listing import list_last, list_objects
from borzoi.objectstore.probing import probe


async def keys(store: ObjectStore, prefix: str, start_after: str = "") -> list[str]:
    return [meta.key async for meta in list_objects(store, prefix, start_after=start_after)]


@pytest.mark.parametrize("size", [11, 1024, MIB])
async def test_what_is_put_comes_back(store: ObjectStore, size: int) -> None:
    data = os.urandom(size)
    outcome = await store.put("a/b", data)
    assert outcome.size == size
    found = await store.get("a/b")
    assert bytes(found.data) == data
    assert (found.meta.key, found.meta.size) == ("a/b", size)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_every_kind_of_buffer_can_be_put(store: ObjectStore, kind: type) -> None:
    await store.put("k", kind(b"12345"))
    await store.create("c", kind(b"67890"))
    assert bytes((await store.get("k")).data) == b"12345"
    assert bytes((await store.get("c")).data) == b"67890"


async def test_put_replaces(store: ObjectStore) -> None:
    await store.put("k", b"first, and longer")
    await store.put("k", b"second")
    assert bytes((await store.get("k")).data) == b"second"
    assert (await store.head("k")).size == 6


async def test_only_the_first_create_succeeds(store: ObjectStore) -> None:
    await store.create("k", b"first")
    with pytest.raises(ObjectExists) as raised:
        await store.create("k", b"second")
    assert (raised.value.key, raised.value.retriable) == ("k", False)
    assert bytes((await store.get("k")).data) == b"first"


async def test_one_of_many_concurrent_creates_wins(store: ObjectStore) -> None:
    for race in range(5):

        async def attempt(number: int, race: int = race) -> int | None:
            try:
                await store.create(f"race/{race}", b"%d" % number)
            except ObjectExists:
                return None
            return number

        winners = [
            number for number in await asyncio.gather(*map(attempt, range(8))) if number is not None
        ]
        assert len(winners) == 1
        assert bytes((await store.get(f"race/{race}")).data) == b"%d" % winners[0]


async def test_ranges_are_exact(store: ObjectStore) -> None:
    await store.put("k", bytes(range(100)))
    assert bytes(await store.get_range("k", 10, 20)) == bytes(range(10, 20))
    assert bytes(await store.get_range("k", 0, 100)) == bytes(range(100))
    assert bytes(await store.get_range("k", 99, 100)) == b"c"
    assert bytes(await store.get_range("nothing", 5, 5)) == b""
    ranges = [(90, 100), (0, 3), (50, 50), (2, 5)]
    found = await store.get_ranges("k", ranges)
    assert [bytes(part) for part in found] == [bytes(range(*each)) for each in ranges]
    assert await store.get_ranges("k", []) == []


@pytest.mark.parametrize("bounds", [(95, 101), (100, 101), (500, 600)])
async def test_a_range_past_the_end_is_an_error(
    store: ObjectStore, bounds: tuple[int, int]
) -> None:
    await store.put("k", bytes(100))
    with pytest.raises(RangeOutOfBounds):
        await store.get_range("k", *bounds)
    with pytest.raises(RangeOutOfBounds):
        await store.get_ranges("k", [(0, 5), bounds])


async def test_the_end_of_an_object_can_be_read_without_its_size(store: ObjectStore) -> None:
    await store.put("k", bytes(range(100)))
    data, size = await store.get_suffix("k", 10)
    assert (bytes(data), size) == (bytes(range(90, 100)), 100)
    data, size = await store.get_suffix("k", 1000)
    assert (bytes(data), size) == (bytes(range(100)), 100)


async def test_a_missing_key_is_not_found(store: ObjectStore) -> None:
    for request in (
        store.get("a/missing"),
        store.head("a/missing"),
        store.get_range("a/missing", 0, 5),
        store.get_ranges("a/missing", [(0, 5)]),
        store.get_suffix("a/missing", 5),
    ):
        with pytest.raises(ObjectNotFound) as raised:
            await request
        assert raised.value.key == "a/missing"


async def test_deleting_is_idempotent(store: ObjectStore) -> None:
    await store.put("k", b"1")
    await store.delete("k")
    await store.delete("k")
    with pytest.raises(ObjectNotFound):
        await store.head("k")
    await store.create("k", b"2")


async def test_listings_are_complete_ordered_and_of_the_prefix_only(store: ObjectStore) -> None:
    wanted = [f"list/{number:05}" for number in range(1205)]
    strangers = ["list-", "list.d/0", "listing", "lis", "m/list/1"]
    for first in range(0, 1205, 50):
        await asyncio.gather(*(store.put(key, b"1") for key in wanted[first : first + 50]))
    for key in strangers:
        await store.put(key, b"1")
    assert await keys(store, "list/") == wanted
    assert await keys(store, "list/0000") == wanted[:10]
    assert await keys(store, "list/", start_after="list/01200") == wanted[1201:]
    assert await keys(store, "list/", start_after="list/012") == wanted[1200:]
    assert await keys(store, "none/") == []
    assert sorted(await keys(store, "")) == sorted(wanted + strangers)
    last = await list_last(store, "list/")
    assert last is not None
    assert last.key == wanted[-1]
    assert await store.delete_many([*wanted, "list/missing"]) == []
    assert await keys(store, "list/") == []
    assert sorted(await keys(store, "")) == sorted(strangers)


async def test_a_multipart_upload_appears_whole(store: ObjectStore) -> None:
    parts = [os.urandom(PART_BYTES_MIN), os.urandom(PART_BYTES_MIN), os.urandom(1000)]
    upload = store.open_multipart("big/one", part_size=PART_BYTES_MIN, concurrency=2)
    await upload.part(parts[0])
    await upload.part(parts[1])
    with pytest.raises(ObjectNotFound):
        await store.head("big/one")
    await upload.part(parts[2])
    outcome = await upload.complete()
    assert (outcome.size, outcome.parts) == (2 * PART_BYTES_MIN + 1000, 3)
    assert bytes((await store.get("big/one")).data) == b"".join(parts)


async def test_an_aborted_upload_leaves_nothing(store: ObjectStore) -> None:
    upload = store.open_multipart("big/two", part_size=PART_BYTES_MIN)
    await upload.part(bytes(PART_BYTES_MIN))
    await upload.abort()
    await upload.abort()
    with pytest.raises(ObjectNotFound):
        await store.head("big/two")
    assert await keys(store, "") == []
    await store.open_multipart("big/three").abort()


async def test_parts_have_one_size_and_a_floor(store: ObjectStore) -> None:
    with pytest.raises(PartSizeTooSmall):
        store.open_multipart("k", part_size=PART_BYTES_MIN - 1)
    upload = store.open_multipart("k", part_size=PART_BYTES_MIN)
    for wrong in (0, PART_BYTES_MIN + 1):
        with pytest.raises(PartSizeTooSmall):
            await upload.part(bytes(wrong))
    await upload.part(bytes(PART_BYTES_MIN))
    await upload.part(b"the last")
    with pytest.raises(PartSizeTooSmall):
        await upload.part(b"one more")
    await upload.abort()


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "a/../b", ".", "ä", "a b", "a?b", "x" * 901]
)
async def test_keys_that_a_store_might_change_are_refused(store: ObjectStore, key: str) -> None:
    for request in (store.put(key, b""), store.create(key, b""), store.get(key), store.delete(key)):
        with pytest.raises(InvalidKey):
            await request


async def test_every_one_of_them_passes_the_probe(store: ObjectStore) -> None:
    verdict = await probe(store)
    assert verdict.accepted, verdict
    assert await keys(store, "") == []
