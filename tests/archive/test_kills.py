"""An archiver that is killed at any moment leaves no marker without its data.

`BORZOI_ARCHIVE_KILLS` says how often; the tier `object` does it 50 times, against SeaweedFS too.
"""

import asyncio
import os
import select
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.support.archives import files_in, fill, open_partition
from tests.support.object_servers import SECRETS, new_place, seaweed_server

from borzoi.archive.catalog import Selection, read_catalog
from borzoi.archive.verifying import verify
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import PART_BYTES_MIN, ObjectStore
from borzoi.objectstore.locations import open_store

KILLS = int(os.environ.get("BORZOI_ARCHIVE_KILLS", "3"))
PROCESS = Path(__file__).with_name("interrupted_archiver.py")
ROOT = Path(__file__).parents[2]
#: Large enough that one upload has several parts.
SEGMENT_BYTES = 12 << 20
#: How long the process may work after it began, at most.
SECONDS_MAX = 0.6
PATIENCE_SECONDS = 120


def make_partition(data: Path) -> None:
    log = open_partition(data, size=SEGMENT_BYTES)
    while sum(facts.sealed for facts in log.segments()) < 4:
        fill(log, 50, seed=log.next_offset)
    log.close()


def run_and_kill(data: Path, url: str, after: float) -> bool:
    """Whether the process was done before it was killed."""
    with subprocess.Popen(
        [sys.executable, str(PROCESS), str(data), url, str(PART_BYTES_MIN), str(SEGMENT_BYTES)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AWS_ACCESS_KEY_ID": SECRETS.access_key_id,
            "AWS_SECRET_ACCESS_KEY": SECRETS.secret_access_key,
        },
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        found, _, _ = select.select([process.stdout], [], [], after)
        process.kill()
        return bool(found)


async def check(store: ObjectStore) -> int:
    """Every marker has its data; how many there are."""
    catalog = await read_catalog(store, "node")
    faults = [
        checked
        async for checked in verify(store, catalog, Selection())
        # A gap is what a later turn fills.
        if checked.fault and "are missing" not in checked.fault
    ]
    assert faults == []
    return sum(len(life.starts) for life in catalog.lives)


def kill_often(tmp_path: Path, make_store, url_of, kills: int) -> None:
    data = tmp_path / "data"
    make_partition(data)
    dice = Random(int(os.environ.get("BORZOI_CRASH_SEED", "1")))
    interrupted = 0
    for number in range(kills):
        url = url_of(number)
        # A fresh archive now and then, so that uploads are interrupted and not only looked up.
        interrupted += not run_and_kill(data, url, dice.uniform(0, SECONDS_MAX))
        asyncio.run(checked(make_store(number)))
    assert interrupted > 0
    while not run_and_kill(data, url_of(kills - 1), PATIENCE_SECONDS):
        pass
    assert asyncio.run(checked(make_store(kills - 1))) == 4


async def checked(store: ObjectStore) -> int:
    try:
        return await check(store)
    finally:
        await store.close()


def test_a_directory_never_has_a_marker_without_its_data(tmp_path: Path) -> None:
    places = [tmp_path / "archive" / str(number // 3) for number in range(KILLS)]
    kill_often(
        tmp_path,
        lambda number: DirectoryStore(places[number]),
        lambda number: f"file://{places[number]}",
        KILLS,
    )
    last = files_in(places[-1])
    whole = files_in(tmp_path / "data" / "streams")
    for name, content in last.items():
        if name.endswith((".log", ".index")):
            assert whole["0/topics/0/partitions/0/" + name.rpartition("/")[2]] == content


@pytest.mark.object
def test_seaweedfs_never_has_one_either(tmp_path: Path) -> None:
    (tmp_path / "weed").mkdir()
    with seaweed_server(tmp_path / "weed") as endpoint:
        places = [new_place(endpoint) for _ in range((KILLS + 2) // 3)]
        kill_often(
            tmp_path,
            lambda number: open_store(places[number // 3]),
            lambda number: str(places[number // 3]),
            KILLS,
        )
