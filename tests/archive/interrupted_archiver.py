"""A process that archives a partition until it is killed.

    interrupted_archiver.py DATA URL PART_SIZE SEGMENT_SIZE

It writes a line when it begins, and one when everything is archived.
"""

import asyncio
import sys
from pathlib import Path

from tests.support.archives import archiver_to, open_partition, view_of

from borzoi.objectstore.locations import open_store, parse_location
from borzoi.objectstore.retries import RetryingStore


async def main(data: str, url: str, part_size: int, segment_size: int) -> None:
    store = RetryingStore(open_store(parse_location(url)))
    log = open_partition(Path(data), size=segment_size)
    print("begun", flush=True)
    archiver = archiver_to(store, concurrency=2, part_size=part_size)
    await archiver.run([view_of(log)], None)
    print("done", flush=True)
    await store.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
