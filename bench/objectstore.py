"""What our interface costs on top of the bare library, and how much memory an upload takes.

Both go through the same sink in the same run, in turns; a row is the median of the ratios.

    python -m bench objectstore
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore
import uvloop

from borzoi.archive.uploading import CHECK_NONE, OpenFile, upload_file
from borzoi.objectstore.locations import DEFAULT_TIMING, Location, Secrets
from borzoi.objectstore.multipart import BufferedMultipartWriter
from borzoi.objectstore.obstore_adapter import ObstoreStore
from borzoi.objectstore.obstore_opening import library_store
from borzoi.objectstore.retries import RetryingStore

#: Many short ones: what else runs on the machine then meets both sides alike.
SMALL_ROUNDS = 101
LARGE_ROUNDS = 31
REQUESTS = 200
INFLIGHT = 32
SMALL = bytes(1024)
PART_BYTES = 8 << 20
LARGE_BYTES = 64 << 20
ARCHIVED_BYTES = 1 << 30

SMALL_GOAL = 0.85
LARGE_GOAL = 0.9
MEMORY_GOAL_MB = 64


@contextmanager
def sink() -> Iterator[Location]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.object_sink"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        yield Location(
            "s3",
            "bucket",
            endpoint=f"http://127.0.0.1:{port}",
            region="us-east-1",
            secrets=Secrets("a", "b"),
        )
        process.stdin.close()


async def at_once(request: Callable[[], Awaitable[Any]]) -> float:
    """Return the seconds for all requests, with this many in flight."""
    left = iter(range(REQUESTS))

    async def worker() -> None:
        for _ in left:
            await request()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(INFLIGHT)))
    return time.perf_counter() - began


async def alone(upload: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await upload()
    return time.perf_counter() - began


async def ratios(location: Location) -> list[tuple[str, float, float]]:
    library = library_store(location, DEFAULT_TIMING, retries=0)
    bare = ObstoreStore(library, library)
    ours = RetryingStore(bare)
    part = bytes(PART_BYTES)

    async def library_upload() -> None:
        async def parts() -> Any:
            for _ in range(LARGE_BYTES // PART_BYTES):
                yield part

        await obstore.put_async(
            library, "k", parts(), use_multipart=True, chunk_size=PART_BYTES, max_concurrency=3
        )

    async def our_upload() -> None:
        writer = BufferedMultipartWriter(ours, "k", part_size=PART_BYTES)
        for _ in range(LARGE_BYTES // PART_BYTES):
            await writer.append(part)
        await writer.seal()

    async def library_get() -> None:
        await obstore.get_range_async(library, "k", start=0, end=1024)

    rows: list[tuple[str, float, Any, Any, Any]] = [
        (
            "PUT 1 KiB, adapter",
            SMALL_GOAL,
            at_once,
            lambda: obstore.put_async(library, "k", SMALL, use_multipart=False),
            lambda: bare.put("k", SMALL),
        ),
        (
            "GET 1 KiB, adapter",
            SMALL_GOAL,
            at_once,
            library_get,
            lambda: bare.get_range("k", 0, 1024),
        ),
        ("64 MiB in parts", LARGE_GOAL, alone, library_upload, our_upload),
        (
            "PUT 1 KiB, with retries and time limits",
            0.0,
            at_once,
            lambda: obstore.put_async(library, "k", SMALL, use_multipart=False),
            lambda: ours.put("k", SMALL),
        ),
    ]
    found = []
    for name, goal, measure, theirs, mine in rows:
        await measure(theirs)
        await measure(mine)
        each = []
        for number in range(SMALL_ROUNDS if measure is at_once else LARGE_ROUNDS):
            order = (theirs, mine) if number % 2 else (mine, theirs)
            took = {one: await measure(one) for one in order}
            each.append(took[theirs] / took[mine])
        found.append((name, statistics.median(each), goal))
    await ours.close()
    return found


def resident(field: str) -> float:
    """Megabytes, as the kernel counts them."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) / 1000


async def archive_memory(endpoint: str, path: str) -> None:
    """In a process of its own: what one upload of 1 GiB takes above the idle state."""
    location = Location("s3", "b", endpoint=endpoint, region="us-east-1", secrets=Secrets("a", "b"))
    library = library_store(location, DEFAULT_TIMING, retries=0)
    store = RetryingStore(ObstoreStore(library, library))
    await store.put("warm", SMALL)
    file = OpenFile(Path(path))
    idle = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    began = time.perf_counter()
    await upload_file(store, "k", file, file.size, check=CHECK_NONE)
    print(resident("VmHWM") - idle, time.perf_counter() - began)
    await store.close()


def main() -> int:
    missed = 0
    with sink() as location, tempfile.TemporaryDirectory() as folder:
        for name, ratio, goal in uvloop.run(ratios(location)):
            missed += ratio < goal
            shown = f"{goal:.2f}" if goal else "-"
            print(f"{name}: {ratio:.2f} of the bare library, goal {shown}", flush=True)
        archived = Path(folder) / "segment.log"
        with archived.open("wb") as file:
            file.truncate(ARCHIVED_BYTES)
        done = subprocess.run(
            [sys.executable, "-m", "bench.objectstore", location.endpoint, str(archived)],
            capture_output=True,
            text=True,
            check=True,
        )
        above, seconds = map(float, done.stdout.split())
        missed += above > MEMORY_GOAL_MB
        print(
            f"archiving 1 GiB: {above:.0f} MB above idle, goal {MEMORY_GOAL_MB};"
            f" {ARCHIVED_BYTES / seconds / 1e6:.0f} MB/s"
        )
    return missed


if __name__ == "__main__":
    uvloop.run(archive_memory(sys.argv[1], sys.argv[2]))
