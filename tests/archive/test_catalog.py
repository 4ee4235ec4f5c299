from pathlib import Path

from tests.archive.test_policy import A, B, C, marker
from tests.support.archives import CREATED_AT, ZERO, archiver_to, fill, open_partition, view_of

from borzoi.archive.catalog import Selection, gap_in, read_catalog, read_markers, servers_of
from borzoi.archive.layout import Life
from borzoi.model.namespace import Namespace
from borzoi.objectstore.memory import MemoryStore


async def test_a_catalog_counts_what_is_complete_and_what_is_not(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    store = MemoryStore()
    await archiver_to(store).run([view_of(log)], None)
    sealed = [facts for facts in log.segments() if facts.sealed]
    (key,) = [
        meta.key
        for meta in await store.list_page("")
        if meta.key.endswith(f"{sealed[-1].start_offset:020}.json")
    ]
    await store.delete(key)
    await store.put("elsewhere/file", b"1")
    catalog = await read_catalog(store, "node")
    (life,) = catalog.lives
    assert life.life == Life(ZERO, CREATED_AT)
    assert life.starts == [facts.start_offset for facts in sealed[:-1]]
    assert life.unmarked == 2
    assert life.size == sum(
        facts.size + 16 * (facts.end_offset - facts.start_offset + 1) for facts in sealed[:-1]
    )
    assert await servers_of(store) == ["node"]
    markers = await read_markers(store, "node", life, from_offset=sealed[1].start_offset + 1)
    assert [one.start_offset for one in markers] == [facts.start_offset for facts in sealed[1:-1]]


def test_a_selection_names_parts_of_the_address() -> None:
    namespace = Namespace(1, 2, 3)
    assert Selection().includes(namespace)
    assert Selection(1, 2, 3).includes(namespace)
    assert not Selection(1, 9).includes(namespace)
    assert not Selection(partition_id=4).includes(namespace)


def test_missing_messages_between_segments_are_found() -> None:
    assert gap_in([]) is None
    assert gap_in([marker(A), marker(B), marker(C)]) is None
    assert gap_in([marker(A), marker(C)]) == (10, 19)
