import asyncio
from pathlib import Path

import pytest
from tests.objectstore.test_decorating import Noting
from tests.support.archives import CREATED_AT, ZERO, archiver_to, fill, open_partition, view_of
from tests.support.object_log_schedules import Dice
from tests.support.object_servers import new_place, rclone_server

from borzoi.archive.catalog import read_catalog
from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.objectstore.errors import PermissionDenied, Unavailable
from borzoi.objectstore.faults import FaultyStore
from borzoi.objectstore.listing import list_objects
from borzoi.objectstore.locations import open_store
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.retries import RetryingStore
from borzoi.storage.compressed import TwinOpener, compress_sealed


async def keys(store) -> list[str]:
    return [meta.key async for meta in list_objects(store, "")]


async def test_sealed_segments_are_copied_as_they_are_and_marked_last(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = Noting(MemoryStore())
    archiver = archiver_to(store, concurrency=1)
    await archiver.run([view_of(log)], None)
    sealed = [facts for facts in log.segments() if facts.sealed]
    assert len(sealed) >= 3
    prefix = f"node/streams/0/topics/0/partitions/0/{CREATED_AT}/"
    for facts in sealed:
        for suffix in (".log", ".index"):
            name = f"{facts.start_offset:020}{suffix}"
            stored = (await store.get(prefix + name)).data
            assert bytes(stored) == (log.directory / name).read_bytes()
    writes = [key.rpartition(".")[2] for op, key, _ in store.noted if op in ("put", "create")]
    assert writes == ["log", "index", "json"] * len(sealed)
    counters = archiver.counters
    assert (counters.segments_archived, counters.lag_segments) == (len(sealed), 0)
    assert counters.bytes_archived > sum(facts.size for facts in sealed)
    assert counters.last_success > CREATED_AT


async def test_nothing_is_sent_twice_by_this_process_or_the_next(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = Noting(MemoryStore())
    archiver = archiver_to(store)
    await archiver.run([view_of(log)], None)
    before = await keys(store)
    for again in (archiver, archiver_to(store)):
        store.noted.clear()
        await again.run([view_of(log)], None)
        assert not [one for one in store.noted if one[0] in ("put", "create", "part")]
    fill(log, 10, seed=1)
    await archiver.run([view_of(log)], None)
    assert set(before) < set(await keys(store))


async def test_compressed_segments_are_copied_compressed(tmp_path: Path) -> None:
    log = open_partition(tmp_path, size=512 * 1024)
    for _ in range(3):
        fill(log, 60)
    segments = [facts.start_offset for facts in log.segments() if facts.sealed]
    # Random bytes do not shrink; a segment of text does.
    for start in segments:
        (log.directory / f"{start:020}.log.zst").write_bytes(b"stands for a twin")
        (log.directory / f"{start:020}.log").unlink()
    store = MemoryStore()
    await archiver_to(store).run([view_of(log)], None)
    assert [key.rpartition("/")[2] for key in await keys(store) if key.endswith(".zst")] == [
        f"{start:020}.log.zst" for start in segments
    ]
    assert await compress_sealed(log, Compression.ZSTD, TwinOpener()) == 0


async def test_a_purged_partition_gets_an_archive_of_its_own(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = MemoryStore()
    archiver = archiver_to(store)
    await archiver.run([view_of(log)], None)
    old = await keys(store)
    log.purge()
    fill(log, 20, seed=9, timestamp=CREATED_AT + 10**6)
    for runner in (archiver, archiver_to(store)):
        assert runner.deletable(ZERO, log.segments(), 2) == 0, (
            "the old copies are of other messages"
        )
        await runner.run([view_of(log)], None)
        assert runner.deletable(ZERO, log.segments(), 2) == 2
    catalog = await read_catalog(store, "node")
    assert len(catalog.lives) == 2
    assert set(old) < set(await keys(store))


async def test_a_recreated_partition_gets_one_as_well(tmp_path: Path) -> None:
    log = open_partition(tmp_path / "first")
    fill(log, 20)
    store = MemoryStore()
    archiver = archiver_to(store)
    await archiver.run([view_of(log)], None)
    other = open_partition(tmp_path / "second")
    fill(other, 20, seed=3)
    await archiver.run([view_of(other, created_at=CREATED_AT + 500)], None)
    catalog = await read_catalog(store, "node")
    assert [life.life.began for life in catalog.lives] == [CREATED_AT, CREATED_AT + 500]


async def test_a_store_that_fails_holds_up_nothing_and_is_caught_up_with(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 40)
    truth = MemoryStore()
    faulty = FaultyStore(truth, seed=2, chance=0.3)
    archiver = archiver_to(RetryingStore(faulty, sleep=Dice(0).sleep))
    for _ in range(30):
        await archiver.run([view_of(log)], None)
        if archiver.counters.last_success:
            break
    assert archiver.counters.lag_segments == 0
    assert sum(faulty.played.values()) > 5
    check = archiver_to(truth)
    await check.run([view_of(log)], None)
    assert check.counters.segments_archived == 0, "everything was there"


async def test_deletion_waits_for_the_archive(tmp_path: Path) -> None:
    class Down(MemoryStore):
        async def put(self, key, data):
            raise PermissionDenied("no")

    log = open_partition(tmp_path)
    fill(log, 20)
    archiver = archiver_to(Down())
    assert archiver.deletable(ZERO, log.segments(), 2) == 0, "nothing is known yet"
    await archiver.run([view_of(log)], None)
    assert archiver.deletable(ZERO, log.segments(), 2) == 0
    assert archiver.counters.deletions_blocked == 4
    assert archiver.counters.segments_failed >= 3
    assert archiver.counters.last_success == 0


async def test_no_more_segments_at_a_time_than_configured(tmp_path: Path) -> None:
    class Slow(MemoryStore):
        running = highest = 0

        async def put(self, key, data):
            self.running += 1
            self.highest = max(self.highest, self.running)
            await asyncio.sleep(0.001)
            self.running -= 1
            return await super().put(key, data)

    logs = [open_partition(tmp_path, Namespace(0, 0, number)) for number in range(4)]
    for log in logs:
        fill(log, 20)
    store = Slow()
    views = [view_of(log, Namespace(0, 0, number)) for number, log in enumerate(logs)]
    await archiver_to(store, concurrency=3).run(views, None)
    assert store.highest == 3


async def test_an_index_that_is_not_written_yet_is_waited_for(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    first = log.segments()[0]
    index = log.directory / f"{first.start_offset:020}.index"
    whole = index.read_bytes()
    index.write_bytes(whole[:-16])
    store = MemoryStore()
    archiver = archiver_to(store)
    await archiver.run([view_of(log)], None)
    assert archiver.counters.lag_segments == 1
    assert archiver.counters.segments_failed == 0
    index.write_bytes(whole)
    await archiver.run([view_of(log)], None)
    assert archiver.counters.lag_segments == 0


async def test_a_marker_whose_answer_was_lost_is_taken_for_what_it_is(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = MemoryStore()
    await archiver_to(store).run([view_of(log)], None)
    forgetful = archiver_to(store, now=CREATED_AT + 10**12)
    forgetful._listed = {}
    await forgetful.run([view_of(log)], None)
    assert (forgetful.counters.segments_failed, forgetful.counters.lag_segments) == (0, 0)


class State:
    def __init__(self) -> None:
        self.last_index = -1

    def read(self) -> dict[str, bytes]:
        return {"state.messages": b"%d" % self.last_index, "info.json": b"{}"}


async def test_metadata_is_copied_when_it_changed_and_old_copies_go() -> None:
    store, state = MemoryStore(), State()
    archiver = archiver_to(store, state_keep=2)
    await archiver.run([], state)
    assert await keys(store) == []
    for index in (0, 0, 4, 9):
        state.last_index = index
        await archiver.run([], state)
    assert archiver.counters.states_archived == 3
    assert (await read_catalog(store, "node")).states == [4, 9]
    assert bytes((await store.get("node/state/00000000000000000009/state.messages")).data) == b"9"
    assert [key for key in await keys(store) if "0000/" in key] == []
    again = archiver_to(store, state_keep=2)
    await again.run([], state)
    assert again.counters.states_archived == 0
    without = archiver_to(MemoryStore(), include_state=False)
    await without.run([], state)
    assert without.counters.states_archived == 0


async def test_what_a_killed_server_has_archived_can_be_restored(tmp_path: Path) -> None:
    """The metadata that names a topic is in the archive before the first segment of the topic."""
    log = open_partition(tmp_path)
    fill(log, 20)
    store, state = Noting(MemoryStore()), State()
    state.last_index = 3
    await archiver_to(store, concurrency=1).run([view_of(log)], state)
    written = [key for op, key, _ in store.noted if op in ("put", "create")]
    marker = next(at for at, key in enumerate(written) if key.endswith("3/marker.json"))
    segments = [at for at, key in enumerate(written) if "/streams/" in key]
    assert marker < min(segments)


async def test_a_shard_waits_until_the_archive_has_its_topics(tmp_path: Path) -> None:
    """A shard that archives its segments before another has archived their topic would leave an
    archive behind that can be restored, but not started."""
    log = open_partition(tmp_path)
    fill(log, 20)
    store, state = MemoryStore(), State()
    state.last_index = 3
    writer = archiver_to(store, now=CREATED_AT + 1000)
    shard = archiver_to(store, follows_state=True)
    old, new = view_of(log), view_of(log, Namespace(0, 1, 0), created_at=CREATED_AT + 10**6)

    await shard.run([old, new], None)
    assert await keys(store) == []
    assert shard.counters.lag_segments == 2 * len(old.segments) - 2
    assert shard.counters.last_success == 0

    await writer.run([], state)
    await shard.run([old, new], None)
    archived = (await read_catalog(store, "node")).lives
    assert [one.life.namespace for one in archived] == [old.namespace]

    state.last_index = 4
    await archiver_to(store, now=CREATED_AT + 10**7).run([], state)
    await shard.run([old, new], None)
    archived = (await read_catalog(store, "node")).lives
    assert [one.life.namespace for one in archived] == [old.namespace, new.namespace]
    assert shard.counters.lag_segments == 0

    alone = archiver_to(MemoryStore(), follows_state=True, include_state=False)
    await alone.run([old], None)
    assert alone.counters.segments_archived == len(old.segments) - 1


async def test_metadata_that_cannot_be_copied_is_counted() -> None:
    class Down(MemoryStore):
        async def put(self, key, data):
            raise Unavailable("down")

    state = State()
    state.last_index = 3
    archiver = archiver_to(Down())
    await archiver.run([], state)
    assert (archiver.counters.states_failed, archiver.counters.states_archived) == (1, 0)


async def test_partitions_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    archiver = archiver_to(MemoryStore())
    await archiver.run([view_of(log)], None)
    await archiver.run([], None)
    assert archiver._lives == {}


async def test_an_archive_that_cannot_be_read_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Down(MemoryStore):
        async def list_page(self, prefix, *, start_after=""):
            raise Unavailable("down")

    log = open_partition(tmp_path)
    fill(log, 20)
    archiver = archiver_to(Down())
    await archiver.run([view_of(log)], State())
    assert archiver.counters.turns_failed == 1
    assert caplog.messages == ["cannot use the archive: down"]
    assert archiver.counters.last_success == 0


async def test_a_damaged_marker_holds_up_its_own_partition_only(tmp_path: Path) -> None:
    logs = {
        Namespace(0, 0, number): open_partition(tmp_path, Namespace(0, 0, number))
        for number in range(2)
    }
    for log in logs.values():
        fill(log, 20)
    store = MemoryStore()
    await archiver_to(store).run([view_of(log, namespace) for namespace, log in logs.items()], None)
    marker = next(key for key in await keys(store) if key.endswith(".json"))
    await store.put(marker, bytes((await store.get(marker)).data).replace(b"size", b"sise"))
    for log in logs.values():
        fill(log, 10, seed=1)
    archiver = archiver_to(store)
    await archiver.run([view_of(log, namespace) for namespace, log in logs.items()], None)
    counters = archiver.counters
    assert (counters.turns_failed, counters.last_success) == (1, 0)
    damaged, whole = logs
    assert archiver.deletable(damaged, logs[damaged].segments(), 1) == 0
    assert archiver.deletable(whole, logs[whole].segments(), 5) == 5


async def test_a_store_that_lacks_a_property_is_refused_before_anything_is_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Overwriting(MemoryStore):
        async def create(self, key, data):
            return await self.put(key, data)

    log = open_partition(tmp_path)
    fill(log, 20)
    store = Overwriting()
    archiver = archiver_to(store, asks_first=True)
    for turn in (1, 2):
        await archiver.run([view_of(log)], None)
        assert archiver.counters.turns_failed == turn
    assert await keys(store) == []
    assert "the store ignores If-None-Match" in caplog.text
    assert archiver.deletable(ZERO, log.segments(), 2) == 0


async def test_a_good_store_is_asked_once_and_left_clean(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = Noting(MemoryStore())
    archiver = archiver_to(store, asks_first=True)
    for _ in range(2):
        await archiver.run([view_of(log)], None)
    asked = {key for _, key, _ in store.noted if key.startswith("probe/") and key != "probe/"}
    assert len(asked) == 1
    assert archiver.counters.last_success
    assert not [key for key in await keys(store) if key.startswith("probe/")]


async def test_a_store_that_does_not_let_us_delete_is_used_all_the_same(tmp_path: Path) -> None:
    class Keeping(MemoryStore):
        async def delete(self, key):
            raise PermissionDenied("no", op="delete", key=key)

    log = open_partition(tmp_path)
    fill(log, 20)
    archiver = archiver_to(Keeping(), asks_first=True)
    await archiver.run([view_of(log)], None)
    assert archiver.counters.segments_archived >= 3
    assert archiver.counters.turns_failed == 0


@pytest.mark.object
async def test_rclone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rclone").mkdir()
    log = open_partition(tmp_path / "data")
    fill(log, 20)
    with rclone_server(tmp_path / "rclone") as endpoint:
        store = RetryingStore(open_store(new_place(endpoint)))
        archiver = archiver_to(store, asks_first=True)
        await archiver.run([view_of(log)], None)
        await store.close()
    assert (archiver.counters.turns_failed, archiver.counters.segments_archived) == (1, 0)
