"""Segments of real sizes go to a store and come back byte for byte, never whole in memory."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.archives import CREATED_AT, ZERO, open_partition
from tests.support.logs import numbered
from tests.support.object_servers import SECRETS, moto_server, new_place, seaweed_server

from borzoi.objectstore.interface import MIB
from borzoi.storage.layout import partition_directory

GIB = 1024 * MIB
PAYLOAD_BYTES = 4 * MIB
#: What a copy may take above the idle process, whatever the size of a segment.
MEMORY_MB_MAX = 64
PROCESS = Path(__file__).with_name("measured_round_trip.py")
ROOT = Path(__file__).parents[2]


def digests(directory: Path) -> dict[str, str]:
    found = {}
    for path in sorted(directory.iterdir()):
        if path.suffix in (".log", ".index"):
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "blake2b").hexdigest()
    return found


def make_partition(data: Path, segment_size: int, count: int) -> int:
    """So many sealed segments of random bytes; the offset after the last of them."""
    log = open_partition(data, size=segment_size)
    while sum(facts.sealed for facts in log.segments()) < count:
        at = CREATED_AT + log.next_offset
        payloads = [os.urandom(min(PAYLOAD_BYTES, segment_size // 4))]
        log.append(numbered(payloads, base_offset=log.next_offset, timestamp=at), timestamp=at)
    log.flush()
    end = next(facts.start_offset for facts in log.segments() if not facts.sealed)
    log.close()
    return end


def round_trip(tmp_path: Path, url: str, *, segment_size: int, count: int) -> dict[str, float]:
    """There and back in a process of its own; the megabytes that each step held above idle."""
    data, target = tmp_path / "data", tmp_path / "back"
    end = make_partition(data, segment_size, count)
    before = digests(partition_directory(data, ZERO))
    done = subprocess.run(
        [sys.executable, str(PROCESS), str(data), url, str(target), str(segment_size)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AWS_ACCESS_KEY_ID": SECRETS.access_key_id,
            "AWS_SECRET_ACCESS_KEY": SECRETS.secret_access_key,
        },
    )
    back = digests(partition_directory(target, ZERO))
    assert len(back) == 2 * count
    assert back.items() <= before.items()
    again = open_partition(target, size=segment_size)
    assert again.next_offset == end
    again.close()
    megabytes: dict[str, float] = json.loads(done.stdout)
    print({step: round(taken, 1) for step, taken in megabytes.items()})
    assert max(megabytes.values()) <= MEMORY_MB_MAX
    return megabytes


def test_small_segments_by_way_of_moto(tmp_path: Path) -> None:
    with moto_server() as endpoint:
        round_trip(tmp_path, str(new_place(endpoint)), segment_size=12 * MIB, count=2)


def test_small_segments_by_way_of_a_directory(tmp_path: Path) -> None:
    round_trip(tmp_path, f"file://{tmp_path}/archive", segment_size=12 * MIB, count=2)


@pytest.mark.object
def test_larger_ones_by_way_of_seaweedfs(tmp_path: Path) -> None:
    (tmp_path / "weed").mkdir()
    with seaweed_server(tmp_path / "weed") as endpoint:
        round_trip(tmp_path, str(new_place(endpoint)), segment_size=128 * MIB, count=2)


@pytest.mark.deep
def test_several_gibibytes_by_way_of_a_directory(tmp_path: Path) -> None:
    round_trip(tmp_path, f"file://{tmp_path}/archive", segment_size=GIB, count=3)


@pytest.mark.deep
def test_several_gibibytes_by_way_of_seaweedfs(tmp_path: Path) -> None:
    (tmp_path / "weed").mkdir()
    with seaweed_server(tmp_path / "weed") as endpoint:
        round_trip(tmp_path, str(new_place(endpoint)), segment_size=GIB, count=3)
