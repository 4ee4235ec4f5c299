from pathlib import Path

import pytest
from tests.support.archives import ZERO, archiver_to, files_in, fill, open_partition, view_of

from borzoi.archive.catalog import NotInArchive, Selection, read_catalog
from borzoi.archive.restoring import TargetInUse, plan_restore, restore, restore_state
from borzoi.model.namespace import Namespace
from borzoi.objectstore.errors import Corrupt, Unavailable
from borzoi.objectstore.memory import MemoryStore
from borzoi.storage.layout import partition_directory
from borzoi.storage.local import LocalMedium
from borzoi.tools.findings import Finding, Severity
from borzoi.tools.inspection import verify as inspect


async def archived(tmp_path: Path, store: MemoryStore, batches: int = 30):
    log = open_partition(tmp_path / "data")
    fill(log, batches)
    await archiver_to(store).run([view_of(log)], None)
    return log


async def restored(store, target: Path, *, lacking: int = 0, **selection) -> None:
    catalog = await read_catalog(store, "node")
    for plan in await plan_restore(store, catalog, Selection(**selection), target):
        sizes = [size async for size in restore(store, "node", plan)]
        assert sum(sizes) == plan.size - lacking


async def test_the_files_come_back_byte_for_byte_and_a_log_opens_on_them(tmp_path: Path) -> None:
    store = MemoryStore()
    log = await archived(tmp_path, store)
    await restored(store, tmp_path / "back")
    before = files_in(log.directory)
    after = files_in(partition_directory(tmp_path / "back", ZERO))
    sealed = [facts for facts in log.segments() if facts.sealed]
    assert sorted(after) == sorted(
        f"{facts.start_offset:020}{suffix}" for facts in sealed for suffix in (".log", ".index")
    )
    assert all(before[name] == data for name, data in after.items())
    found = list(inspect(LocalMedium(), partition_directory(tmp_path / "back", ZERO), cipher=None))
    assert [
        one for one in found if isinstance(one, Finding) and one.severity is Severity.DAMAGE
    ] == []
    again = open_partition(tmp_path / "back")
    assert again.next_offset == sealed[-1].end_offset + 1
    fill(again, 2, seed=5)
    assert again.next_offset == sealed[-1].end_offset + 21


async def test_a_missing_index_is_made_anew(tmp_path: Path) -> None:
    store = MemoryStore()
    log = await archived(tmp_path, store)
    (index,) = [
        meta.key for meta in await store.list_page("") if meta.key.endswith("0" * 20 + ".index")
    ]
    size = (await store.head(index)).size
    await store.delete(index)
    await restored(store, tmp_path / "back", lacking=size)
    name = "0" * 20 + ".index"
    made = partition_directory(tmp_path / "back", ZERO) / name
    assert made.read_bytes() == (log.directory / name).read_bytes()


async def test_a_part_of_the_log_can_be_restored(tmp_path: Path) -> None:
    store = MemoryStore()
    log = await archived(tmp_path, store)
    segments = log.segments()
    wanted = segments[2].start_offset + 3
    await restored(store, tmp_path / "back", from_offset=wanted)
    again = open_partition(tmp_path / "back")
    assert again.segments()[0].start_offset == segments[2].start_offset


async def test_only_what_was_selected_is_restored(tmp_path: Path) -> None:
    store = MemoryStore()
    archiver = archiver_to(store)
    views = []
    for namespace in (Namespace(0, 0, 0), Namespace(0, 1, 0), Namespace(2, 0, 1)):
        log = open_partition(tmp_path / "data", namespace)
        fill(log, 20)
        views.append(view_of(log, namespace))
    await archiver.run(views, None)
    await restored(store, tmp_path / "one", stream_id=0, topic_id=1)
    assert [path.name for path in (tmp_path / "one" / "streams" / "0" / "topics").iterdir()] == [
        "1"
    ]
    await restored(store, tmp_path / "two", stream_id=2)
    assert [path.name for path in (tmp_path / "two" / "streams").iterdir()] == ["2"]
    with pytest.raises(NotInArchive, match="no such segment"):
        await restored(store, tmp_path / "three", stream_id=9)


async def test_damage_leaves_no_file_that_looks_whole(tmp_path: Path) -> None:
    store = MemoryStore()
    await archived(tmp_path, store)
    key = next(meta.key for meta in await store.list_page("") if meta.key.endswith(".log"))
    data = bytearray((await store.get(key)).data)
    data[1234] ^= 1
    await store.put(key, data)
    with pytest.raises(Corrupt, match="its checksum is"):
        await restored(store, tmp_path / "back")
    assert files_in(tmp_path / "back") == {}


async def test_a_restore_that_is_cut_short_leaves_no_draft(tmp_path: Path) -> None:
    class Failing(MemoryStore):
        async def get_range(self, key, start, end):
            if key.endswith(".index"):
                raise Unavailable("down")
            return await super().get_range(key, start, end)

    store = Failing()
    await archived(tmp_path, store)
    with pytest.raises(Unavailable):
        await restored(store, tmp_path / "back")
    assert all(name.endswith(".log") for name in files_in(tmp_path / "back"))


async def test_a_gap_and_a_used_directory_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    log = await archived(tmp_path, store)
    second, third = log.segments()[1:3]
    with pytest.raises(TargetInUse):
        await restored(store, tmp_path / "data")
    marker = next(
        meta.key
        for meta in await store.list_page("")
        if meta.key.endswith(f"{second.start_offset:020}.json")
    )
    await store.delete(marker)
    with pytest.raises(NotInArchive, match=f"--from-offset {third.start_offset}"):
        await restored(store, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    await restored(store, tmp_path / "back", from_offset=third.start_offset)


async def test_metadata_comes_back_unless_some_is_there(tmp_path: Path) -> None:
    class State:
        last_index = 5

        def read(self) -> dict[str, bytes]:
            return {"state.messages": b"", "state.snapshot": b"snap", "info.json": b"{}"}

    store = MemoryStore()
    await archiver_to(store).run([], State())
    catalog = await read_catalog(store, "node")
    assert await restore_state(store, catalog, tmp_path / "back") == 5
    assert files_in(tmp_path / "back") == State().read()
    with pytest.raises(TargetInUse):
        await restore_state(store, catalog, tmp_path / "back")
    with pytest.raises(NotInArchive):
        await restore_state(store, await read_catalog(store, "other"), tmp_path / "else")
