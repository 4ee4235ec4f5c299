from borzoi.objectstore.listing import list_last, list_objects
from borzoi.objectstore.memory import MemoryStore


async def test_a_listing_goes_on_after_the_last_key_of_a_page() -> None:
    store = MemoryStore()
    for number in range(2_500):
        await store.put(f"a/{number:05}", b"")
    found = []
    async for meta in list_objects(store, "a/"):
        found.append(meta.key)
        await store.delete(meta.key)  # what goes behind it does not move what is before it
    assert found == [f"a/{number:05}" for number in range(2_500)]


async def test_the_greatest_key_of_an_empty_folder_is_none() -> None:
    store = MemoryStore()
    await store.put("b", b"")
    assert await list_last(store, "a/") is None
    last = await list_last(store, "")
    assert last is not None
    assert last.key == "b"
