"""A process that archives a partition, verifies the archive and restores it elsewhere.

    measured_round_trip.py DATA URL TARGET SEGMENT_SIZE

It writes, as JSON, how many megabytes each step held at most above the idle process.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable
from pathlib import Path

from tests.support.archives import archiver_to, open_partition, view_of

from borzoi.archive.catalog import Selection, read_catalog
from borzoi.archive.restoring import plan_restore, restore
from borzoi.archive.verifying import verify
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import open_store, parse_location
from borzoi.objectstore.retries import RetryingStore


def resident(field: str) -> float:
    """Megabytes, as the kernel counts them."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) / 1000


async def above_idle(step: Awaitable[None]) -> float:
    idle = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    await step
    return resident("VmHWM") - idle


async def verified(store: ObjectStore) -> None:
    catalog = await read_catalog(store, "node")
    assert [one async for one in verify(store, catalog, Selection()) if one.fault] == []


async def restored(store: ObjectStore, target: Path) -> None:
    catalog = await read_catalog(store, "node")
    for plan in await plan_restore(store, catalog, Selection(), target):
        async for _ in restore(store, "node", plan):
            pass


async def main(data: str, url: str, target: str, segment_size: int) -> None:
    store = RetryingStore(open_store(parse_location(url)))
    await store.list_page("")  # what a first request loads is not what a copy takes
    log = open_partition(Path(data), size=segment_size)
    archiver = archiver_to(store, concurrency=1)
    megabytes = {
        "archiving": await above_idle(archiver.run([view_of(log)], None)),
        "verifying": await above_idle(verified(store)),
        "restoring": await above_idle(restored(store, Path(target))),
    }
    assert archiver.counters.segments_failed == archiver.counters.lag_segments == 0
    await store.close()
    print(json.dumps(megabytes))


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
