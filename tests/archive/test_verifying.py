from pathlib import Path

import pytest
from tests.archive.test_archiver import State
from tests.support.archives import archiver_to, fill, open_partition, view_of

from borzoi.archive.catalog import Selection, read_catalog
from borzoi.archive.verifying import verify
from borzoi.objectstore.memory import MemoryStore


async def faults(store: MemoryStore, **selection) -> list[tuple[str, str]]:
    catalog = await read_catalog(store, "node")
    return [
        (checked.key.rpartition("/")[2], checked.fault)
        async for checked in verify(store, catalog, Selection(**selection))
        if checked.fault
    ]


async def fault_of_a_bit(store: MemoryStore, key: str, whole: bytes, position: int) -> str:
    """What is found when one bit of an object is flipped: that object alone."""
    damaged = bytearray(whole)
    damaged[position] ^= 0x01
    await store.put(key, damaged)
    ((name, fault),) = await faults(store)
    assert name == key.rpartition("/")[2]
    return fault


@pytest.fixture
async def store(tmp_path: Path) -> MemoryStore:
    log = open_partition(tmp_path)
    fill(log, 20)
    made, state = MemoryStore(), State()
    state.last_index = 1
    await archiver_to(made).run([view_of(log)], state)
    return made


@pytest.mark.parametrize("suffix", [".log", ".index", "state.messages"])
async def test_a_flipped_bit_is_found_wherever_it_is(store: MemoryStore, suffix: str) -> None:
    assert await faults(store) == []
    key = next(meta.key for meta in await store.list_page("") if meta.key.endswith(suffix))
    whole = bytes((await store.get(key)).data)
    for position in {0, len(whole) // 2, len(whole) - 1}:
        assert "checksum" in await fault_of_a_bit(store, key, whole, position)
    await store.put(key, whole[:-1])
    assert "instead of" in (await faults(store))[0][1]
    await store.delete(key)
    assert "no such object" in (await faults(store))[0][1]
    assert await faults(store, stream_id=7) == []


@pytest.mark.parametrize("folder", ["streams/", "state/"])
async def test_a_flipped_bit_of_a_marker_is_found_whichever_it_is(
    store: MemoryStore, folder: str
) -> None:
    found = await store.list_page(f"node/{folder}")
    key = [meta.key for meta in found if meta.key.endswith(".json") and "info" not in meta.key][-1]
    whole = bytes((await store.get(key)).data)
    for position in range(len(whole)):
        assert "marker" in await fault_of_a_bit(store, key, whole, position)
    await store.put(key, whole)
    assert await faults(store) == []


async def test_the_bytes_are_told_as_they_are_read(store: MemoryStore) -> None:
    catalog, steps = await read_catalog(store, "node"), list[int]()
    checked = [one async for one in verify(store, catalog, Selection(), advance=steps.append)]
    assert sum(steps) == sum(one.size for one in checked) > 100_000


async def test_a_missing_segment_is_found(store: MemoryStore) -> None:
    found = await store.list_page("node/streams/")
    markers = [meta.key for meta in found if meta.key.endswith(".json")]
    await store.delete(markers[1])
    ((_, fault),) = await faults(store)
    assert "are missing" in fault
