"""A real process appends, is killed at a random moment, and its log is opened and read back.

`BORZOI_CRASH_CYCLES` says how often, over both levels.
"""

import asyncio
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.crash import log_writer
from tests.support.logs import payloads_in

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.topics import Compression
from borzoi.partitions.futures import arrived
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.records.batch import verify, walk
from borzoi.storage.settings import Acknowledge

CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "5"))
SEED = int(os.environ.get("BORZOI_CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
ROOT = Path(__file__).resolve().parents[2]
#: Numbers of different cycles never meet.
NUMBERS_PER_CYCLE = 1 << 32


@dataclass
class Tally:
    cycles: int = 0
    acknowledged: int = 0
    survived: int = 0
    lost: int = 0
    invented: int = 0


@pytest.mark.crash
@pytest.mark.parametrize("level", [Acknowledge.WRITTEN, Acknowledge.SYNCED])
def test_nothing_acknowledged_is_lost_and_nothing_is_invented(
    level: Acknowledge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(f"{SEED} {level}")
    tally = Tally()
    encrypted = False
    promised: dict[int, int] = {}
    directory = tmp_path / "0"
    for cycle in range((CYCLES + 1) // 2):
        if cycle % 10 == 0:
            # A fresh log now and then, encrypted every other time; in between it grows on.
            directory = tmp_path / str(cycle)
            encrypted = cycle % 20 == 10 or (CYCLES < 20 and level is Acknowledge.SYNCED)
            promised = {}
        compression = random.choice((Compression.NONE, Compression.GZIP, Compression.ZSTD))
        acknowledged = run_until_killed(directory, level, encrypted, compression, cycle, random)
        tally.acknowledged += len(acknowledged)
        promised |= acknowledged
        check(directory, level, encrypted, promised, cycle, tally)
        tally.cycles += 1
    with capsys.disabled():
        print(
            f"\n{level}: {tally.cycles} kills, {tally.acknowledged} messages acknowledged,"
            f" {tally.survived} found, {tally.lost} lost, {tally.invented} invented"
            f" (seed {SEED})"
        )
    assert (tally.lost, tally.invented) == (0, 0)
    assert tally.acknowledged > 0


def run_until_killed(
    directory: Path,
    level: Acknowledge,
    encrypted: bool,
    compression: Compression,
    cycle: int,
    random: Random,
) -> dict[int, int]:
    """Offset → number of every message whose acknowledgement came out of the process."""
    arguments = [str(directory), level, str(int(encrypted)), str(int(compression))]
    arguments += [str(cycle * NUMBERS_PER_CYCLE), str(random.getrandbits(32))]
    record = log_writer.ACKNOWLEDGED
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash.log_writer", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        said = os.read(writer.stdout.fileno(), record.size)  # it has opened the log
        if not said:
            raise AssertionError(writer.stderr.read().decode())
        if cycle == 0:
            # However slow the disk is, something is promised; later kills may come before it.
            said += os.read(writer.stdout.fileno(), record.size)
        until = time.monotonic() + random.choice((0.0, 0.01, 0.1, 0.3)) * random.random()
        said += read_until(writer.stdout.fileno(), until)
        writer.kill()
        said += writer.stdout.read()
        complaints = writer.stderr.read().decode()
    assert "Traceback" not in complaints, complaints
    promised: dict[int, int] = {}
    whole = len(said) - len(said) % record.size
    for base_offset, count, number in record.iter_unpack(said[:whole]):
        promised |= {base_offset + each: number + each for each in range(count)}
    return promised


def read_until(descriptor: int, until: float) -> bytes:
    """Keep the pipe empty, or the writer would wait for its reader instead of being killed."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if selector.select(left):
                said += os.read(descriptor, 1 << 20)
    return said


async def everything_in(partition: Partition) -> Polled:
    first = PollingStrategy.first()
    return await arrived(partition.poll(first, 1 << 30, kind=ConsumerKind.CONSUMER, consumer_id=1))


def check(
    directory: Path,
    level: Acknowledge,
    encrypted: bool,
    promised: dict[int, int],
    cycle: int,
    tally: Tally,
) -> None:
    partition = log_writer.open_partition(directory, level, encrypted)
    assert partition.fenced is None, partition.fenced
    polled = asyncio.run(everything_in(partition))
    content = polled.reading.materialise()
    stored = walk(memoryview(content))
    assert stored.offsets().tolist() == list(range(len(stored)))
    assert polled.reading.left_out == 0
    if not encrypted:  # the checksum of an encrypted message covers its stored form
        assert verify(stored) is None
    numbers = []
    for payload in payloads_in(content):
        number = int.from_bytes(payload[:8], "little")
        tally.invented += payload != log_writer.payload_of(number)
        tally.invented += number // NUMBERS_PER_CYCLE > cycle
        numbers.append(number)
    tally.invented += len(numbers) - len(set(numbers))
    tally.lost += sum(
        offset >= len(numbers) or numbers[offset] != number for offset, number in promised.items()
    )
    tally.survived += sum(number // NUMBERS_PER_CYCLE == cycle for number in numbers)
    # The next writer appends behind what survived; all of it must still be there afterwards.
    promised.update(enumerate(numbers))
