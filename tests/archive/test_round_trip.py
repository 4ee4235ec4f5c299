"""Segments of real sizes go to a store and come back byte for byte."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from tests.support.archives import (
    CREATED_AT,
    ZERO,
    archiver_to,
    open_partition,
    view_of,
)
from tests.support.logs import numbered
from tests.support.object_servers import moto_server, new_place, seaweed_server

from borzoi.archive.catalog import Selection, read_catalog
from borzoi.archive.restoring import plan_restore, restore
from borzoi.archive.verifying import verify
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import MIB, ObjectStore
from borzoi.objectstore.locations import open_store
from borzoi.objectstore.retries import RetryingStore
from borzoi.storage.layout import partition_directory

GIB = 1024 * MIB
PAYLOAD_BYTES = 4 * MIB


def digests(directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted(directory.iterdir()):
        if path.suffix in (".log", ".index"):
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "blake2b").hexdigest()
    return found


async def round_trip(tmp_path: Path, store: ObjectStore, *, segment_size: int, count: int) -> None:
    log = open_partition(tmp_path / "data", size=segment_size)
    while sum(facts.sealed for facts in log.segments()) < count:
        at = CREATED_AT + log.next_offset
        payloads = [os.urandom(min(PAYLOAD_BYTES, segment_size // 4))]
        log.append(numbered(payloads, base_offset=log.next_offset, timestamp=at), timestamp=at)
    log.flush()
    sealed = [facts for facts in log.segments() if facts.sealed]
    archiver = archiver_to(store, verify="checksum")
    await archiver.run([view_of(log)], None)
    assert archiver.counters.segments_archived == count
    catalog = await read_catalog(store, "node")
    assert [one.fault async for one in verify(store, catalog, Selection()) if one.fault] == []
    (plan,) = await plan_restore(store, catalog, Selection(), tmp_path / "back")
    async for _ in restore(store, "node", plan):
        pass
    back = digests(partition_directory(tmp_path / "back", ZERO))
    assert len(back) == 2 * count
    assert back.items() <= digests(log.directory).items()
    again = open_partition(tmp_path / "back", size=segment_size)
    assert again.next_offset == sealed[-1].end_offset + 1
    await store.close()


def test_small_segments_by_way_of_moto(tmp_path: Path) -> None:
    with moto_server() as endpoint:
        store = RetryingStore(open_store(new_place(endpoint)))
        asyncio.run(round_trip(tmp_path, store, segment_size=12 * MIB, count=2))


@pytest.mark.object
def test_larger_ones_by_way_of_seaweedfs(tmp_path: Path) -> None:
    (tmp_path / "weed").mkdir()
    with seaweed_server(tmp_path / "weed") as endpoint:
        store = RetryingStore(open_store(new_place(endpoint)))
        asyncio.run(round_trip(tmp_path, store, segment_size=128 * MIB, count=2))


@pytest.mark.deep
def test_several_gibibytes_by_way_of_a_directory(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "archive")
    asyncio.run(round_trip(tmp_path, store, segment_size=GIB, count=3))
