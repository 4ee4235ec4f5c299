"""A process that appends for ever and says what was acknowledged, until it is killed.

    log_writer.py DIRECTORY LEVEL ENCRYPTED COMPRESSION FIRST_NUMBER SEED

Each message carries its number and bytes that follow from it, so a reader can tell a message that
was sent from one that was not. For each acknowledged batch 24 bytes go to standard output: its
base offset, its count and the number of its first message.
"""

import asyncio
import os
import random
import struct
import sys
from itertools import count
from pathlib import Path
from random import Random

from tests.support.logs import batch_of

from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions.partition import Partition
from borzoi.records.fresh_ids import FreshIds
from borzoi.security.encryption import Cipher
from borzoi.storage.compressed import TwinOpener, compress_sealed
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import Syncer
from borzoi.storage.uring import best_syncer

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
SEGMENT_BYTES = 512 * 256
ACKNOWLEDGED = struct.Struct("<QQQ")
APPENDERS = 6


def payload_of(number: int) -> bytes:
    """The one payload a message with this number can have."""
    random = Random(number)
    size = random.choice((0, 1, 50, 300, 1000, 20_000 if number % 50 == 0 else 10))
    return number.to_bytes(8, "little") + bytes([number % 251]) * size


def open_partition(
    directory: Path, level: Acknowledge, encrypted: bool, syncer: Syncer | None = None
) -> Partition:
    medium = LocalMedium()
    log = open_log(
        directory,
        medium,
        segment=SegmentSettings(size=SEGMENT_BYTES),
        partition=PartitionSettings(level, messages_required_to_save=1),
        syncer=syncer,
        open_twin=TwinOpener(),
    )
    return Partition(
        Namespace(0, 0, 0),
        log,
        open_offsets(directory, OffsetWriter(medium)),
        new_ids=FreshIds(random.Random().randbytes),
        cipher=Cipher(KEY) if encrypted else None,
    )


async def compress_for_ever(partition: Partition, compression: Compression) -> None:
    opener, log = TwinOpener(), partition.log
    assert isinstance(log, SegmentedLog)
    while True:
        await compress_sealed(log, compression, opener)
        await asyncio.sleep(0.005)


async def append_for_ever(partition: Partition, numbers: "count[int]", random: Random) -> None:
    while True:
        size = random.choice((1, 1, 3, 20, 200))
        own = [next(numbers) for _ in range(size)]
        batch = batch_of([payload_of(number) for number in own])
        base_offset = partition.log.next_offset
        waiter = partition.append(batch, now=1)
        if waiter is not None:
            await waiter
        os.write(1, ACKNOWLEDGED.pack(base_offset, size, own[0]))
        await asyncio.sleep(0)


async def main(arguments: list[str]) -> None:
    directory, level, encrypted, compression, first_number, seed = arguments
    partition = open_partition(Path(directory), Acknowledge(level), encrypted == "1", best_syncer())
    assert partition.fenced is None, partition.fenced
    os.write(1, ACKNOWLEDGED.pack(0, 0, 0))  # open, and appending from now on
    numbers = count(int(first_number))
    async with asyncio.TaskGroup() as tasks:
        if int(compression) != Compression.NONE:
            tasks.create_task(compress_for_ever(partition, Compression(int(compression))))
        for number in range(APPENDERS):
            random = Random(f"{seed} {number}")
            tasks.create_task(append_for_ever(partition, numbers, random))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
