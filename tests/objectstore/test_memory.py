"""What the contract in `test_interface.py` does not say of this store alone."""

import pytest

from borzoi.objectstore.errors import ObjectExists
from borzoi.objectstore.memory import MemoryStore


async def test_what_was_put_does_not_change_with_the_caller_s_buffer() -> None:
    store, buffer = MemoryStore(), bytearray(b"before")
    await store.put("k", buffer)
    buffer[:] = b"after!"
    assert bytes((await store.get("k")).data) == b"before"


async def test_every_write_has_another_etag() -> None:
    store = MemoryStore()
    tags = [(await store.put("k", b"1")).etag for _ in range(3)]
    assert len(set(tags)) == 3
    assert (await store.head("k")).etag == tags[-1]


async def test_a_create_that_fails_leaves_the_listing_alone() -> None:
    store = MemoryStore()
    await store.create("k", b"1")
    with pytest.raises(ObjectExists):
        await store.create("k", b"2")
    assert [meta.key for meta in await store.list_page("")] == ["k"]
