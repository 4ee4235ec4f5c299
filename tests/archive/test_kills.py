"""An archiver that is killed at any moment leaves no marker without its data.

`BORZOI_ARCHIVE_KILLS` says how often; the tier `object` does it 50 times, against SeaweedFS too.
"""

import asyncio
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
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
SEGMENTS = 4
PATIENCE_SECONDS = 120


def make_partition(data: Path) -> None:
    log = open_partition(data, size=SEGMENT_BYTES)
    while sum(facts.sealed for facts in log.segments()) < SEGMENTS:
        fill(log, 50, seed=log.next_offset)
    log.close()


def run_and_kill(data: Path, url: str, after: float) -> float | None:
    """How long the process took, or None when it was killed before it was done."""
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
        began = time.monotonic()
        found, _, _ = select.select([process.stdout], [], [], after)
        process.kill()
        return time.monotonic() - began if found else None


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


def kill_often(
    data: Path, place_of: Callable[[int], str], open_place: Callable[[int], ObjectStore]
) -> None:
    """Kill a run into an archive of its own, at any moment of the time that a whole run takes."""
    make_partition(data)
    whole = run_and_kill(data, place_of(KILLS), PATIENCE_SECONDS)
    assert whole is not None
    assert asyncio.run(checked(open_place(KILLS))) == SEGMENTS
    dice = Random(int(os.environ.get("BORZOI_CRASH_SEED", "1")))
    markers = []
    for number in range(KILLS):
        if run_and_kill(data, place_of(number), dice.uniform(0, whole)) is None:
            markers.append(asyncio.run(checked(open_place(number))))
    assert len(markers) >= max(KILLS // 3, 1), "most runs were done before they were killed"
    # The next server makes up for what is missing.
    assert run_and_kill(data, place_of(0), PATIENCE_SECONDS) is not None
    assert asyncio.run(checked(open_place(0))) == SEGMENTS


async def checked(store: ObjectStore) -> int:
    try:
        return await check(store)
    finally:
        await store.close()


def test_a_directory_never_has_a_marker_without_its_data(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    kill_often(
        tmp_path / "data",
        lambda number: f"file://{archive}/{number}",
        lambda number: DirectoryStore(archive / str(number)),
    )
    whole = files_in(tmp_path / "data" / "streams")
    for name, content in files_in(archive / "0").items():
        if name.endswith((".log", ".index")):
            assert whole["0/topics/0/partitions/0/" + name.rpartition("/")[2]] == content


@pytest.mark.object
def test_seaweedfs_never_has_one_either(tmp_path: Path) -> None:
    (tmp_path / "weed").mkdir()
    with seaweed_server(tmp_path / "weed") as endpoint:
        places = [new_place(endpoint) for _ in range(KILLS + 1)]
        kill_often(
            tmp_path / "data",
            lambda number: str(places[number]),
            lambda number: open_store(places[number]),
        )
