from pathlib import Path

import pytest
from tests.support.archives import archiver_to, fill, open_partition, view_of

from borzoi.archive.copying import copy_object, plan_copy
from borzoi.objectstore.errors import Unavailable
from borzoi.objectstore.interface import PART_BYTES_MIN
from borzoi.objectstore.listing import list_objects
from borzoi.objectstore.memory import MemoryStore


async def content(store: MemoryStore) -> dict[str, bytes]:
    return {
        meta.key: bytes((await store.get(meta.key)).data) async for meta in list_objects(store, "")
    }


async def copied(source: MemoryStore, target: MemoryStore, prefix: str = "") -> int:
    objects = await plan_copy(source, target, prefix)
    for meta in objects:
        async for _ in copy_object(source, target, meta, part_size=PART_BYTES_MIN):
            pass
    return len(objects)


async def test_everything_is_copied_once_markers_last(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 20)
    source, target = MemoryStore(), MemoryStore()
    await archiver_to(source).run([view_of(log)], None)
    await source.put("node/empty.log", b"")
    plan = [meta.key.rpartition(".")[2] for meta in await plan_copy(source, target, "")]
    assert plan == sorted(plan, key=lambda suffix: suffix == "json")
    assert await copied(source, target) == len(await content(source))
    assert await content(target) == await content(source)
    assert await copied(source, target) == 0
    key = next(key for key in await content(source) if key.endswith(".json"))
    await source.put(key, (await source.get(key)).data[:-1].tobytes() + b" ")
    assert await copied(source, target) == 1
    assert await copied(source, MemoryStore(), "other/") == 0


async def test_large_objects_go_in_parts_and_a_failure_leaves_no_half() -> None:
    class Failing(MemoryStore):
        async def get_range(self, key, start, end):
            if start >= PART_BYTES_MIN:
                raise Unavailable("down")
            return await super().get_range(key, start, end)

    source, target = Failing(), MemoryStore()
    await source.put("node/big.log", bytes(3 * PART_BYTES_MIN))
    with pytest.raises(Unavailable):
        await copied(source, target)
    assert await content(target) == {}
    whole = MemoryStore()
    await whole.put("node/big.log", bytes(3 * PART_BYTES_MIN + 1))
    assert await copied(whole, target) == 1
    assert (await target.head("node/big.log")).size == 3 * PART_BYTES_MIN + 1
