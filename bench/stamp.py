"""What a batch costs between the socket and the log: receive + stamp + index entries.

The measure is a plain loop that hashes each message and does nothing else, in the same run, because
the machine's own speed varies more than what is measured. Each row is the best of five rounds, in
Python and with the accelerator. Fails when the accelerator misses a goal.

    python -m bench stamp
"""

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
from tests.support.accelerators import without_accelerator
from xxhash import xxh3_64_intdigest

from borzoi.records.accelerator import ACCELERATOR
from borzoi.records.batch import SMALL, Batch, index_entries, receive, receive_at, stamp
from borzoi.records.fresh_ids import FreshIds
from borzoi.records.layouts import Layouts

ROUNDS = 5
#: Messages that go through each round, whatever the size of a batch.
MESSAGES_PER_ROUND = 100_000

#: The most that the accelerator may take, as a ratio to the hash loop.
GOALS = {
    "1000 × 100 B, no ids": 0.25,
    "1000 × 1000 B, no ids": 0.75,
    "1000 × 0-2000 B, no ids": 0.6,
}

#: Longer than this many medians is an interruption, not work. A block of new ids, made every fourth
#: batch of 1000, is work.
OUTLIER = 3


def sent(sizes: list[int], first_id: int) -> tuple[bytes, bytes]:
    """Index and messages of a request; payloads of these sizes, ids from `first_id` (0: none)."""
    indexes, messages = bytearray(), bytearray()
    for number, size in enumerate(sizes):
        message_id = first_id + number if first_id else 0
        messages += bytes(8) + message_id.to_bytes(16, "little") + bytes(24)
        messages += bytes(4) + size.to_bytes(4, "little") + bytes(8) + bytes(size)
        indexes += bytes(4) + len(messages).to_bytes(4, "little") + bytes(8)
    return bytes(indexes), bytes(messages)


def hash_only(messages: memoryview, slices: list[slice]) -> None:
    for each in slices:
        xxh3_64_intdigest(messages[each])


class Through:
    """Receives and stamps; with ids of its own, so that each work pays for those that it uses."""

    def __init__(self, indexes: memoryview, count: int) -> None:
        self.indexes, self.count = indexes, count
        self.new_ids = FreshIds(os.urandom)

    def __call__(self, messages: memoryview) -> None:
        self.stamp(receive(messages, self.indexes, self.count))

    def stamp(self, batch: Batch) -> None:
        stamp(batch, base_offset=1_000_000, timestamp=1_700_000_000_000_000, new_ids=self.new_ids)
        index_entries(batch, relative_offset=1000, position=4096, timestamp=1_700_000_000_000_000)


class Again(Through):
    """The same in memory where a batch of this shape lay before, as from the pool."""

    def __init__(self, indexes: memoryview, count: int) -> None:
        super().__init__(indexes, count)
        self.layouts = Layouts()

    def __call__(self, messages: memoryview) -> None:
        if self.count < SMALL:
            super().__call__(messages)
            return
        place = (0, len(messages), self.count)
        self.stamp(receive_at(self.layouts, place, messages, self.indexes))


class Work(NamedTuple):
    do: Callable[[memoryview], None]
    #: Entered around it, outside the time that is taken.
    on: Callable[[], AbstractContextManager[None]] = nullcontext


def means(works: list[Work], view: memoryview, pristine: bytes, batches: int) -> list[float]:
    """Seconds for each work, taken in turns so that what disturbs one disturbs the others.

    The bytes are fresh each time, as they are after a receive.
    """
    taken: list[list[int]] = [[] for _ in works]
    clock = time.perf_counter_ns
    for _ in range(batches):
        for work, times in zip(works, taken, strict=True):
            view[:] = pristine
            with work.on():
                begin = clock()
                work.do(view)
                times.append(clock() - begin)
    return [mean_of_usual(times) / 1e9 for times in taken]


def mean_of_usual(times: list[int]) -> float:
    longest = OUTLIER * statistics.median(times)
    return statistics.fmean([one for one in times if one <= longest])


def row(name: str, sizes: list[int], *, first_id: int = 0) -> bool:
    """Whether the accelerator reaches its goal, if it has one here."""
    raw_indexes, pristine = sent(sizes, first_id)
    indexes, count = memoryview(raw_indexes), len(sizes)
    ends = np.frombuffer(raw_indexes, "<u4")[1::4].tolist()
    slices = [slice(a + 8, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    works = [
        Work(lambda view: hash_only(view, slices)),
        Work(Through(indexes, count), without_accelerator),
        Work(Again(indexes, count), without_accelerator),
        Work(Through(indexes, count)),
    ]
    # Where a request puts them: not aligned to anything.
    view = memoryview(bytearray(len(pristine) + 52))[52:]
    rounds = [means(works, view, pristine, MESSAGES_PER_ROUND // count) for _ in range(ROUNDS)]
    plain, *others = (min(times) for times in zip(*rounds, strict=True))
    if ACCELERATOR.native is None:
        others.pop()
    cells = [f"{taken * 1e6:.1f} | {taken / plain:.2f}" for taken in others]
    cells += ["– | –"] * (3 - len(cells))
    print(f"| {name} | {plain * 1e6:.1f} | {' | '.join(cells)} |", flush=True)
    return len(others) < 3 or others[-1] / plain <= GOALS.get(name, others[-1] / plain)


def main() -> int:
    gc.disable()
    mixed = np.random.default_rng(1)
    print(f"The accelerator is {ACCELERATOR.description}.\n")
    print(
        "| receive + stamp + index | hash loop alone, µs | in Python, µs | ratio "
        "| where one like it lay before, µs | ratio | accelerated, µs | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    reached = [
        row("1000 × 1000 B, no ids", [1000] * 1000),
        row("1000 × 1000 B, own ids", [1000] * 1000, first_id=1),
        row("1000 × 100 B, no ids", [100] * 1000),
        row("1000 × 100 B, own ids", [100] * 1000, first_id=1),
        row("1000 × 300 B, no ids", [300] * 1000),
        row("1000 × 10 kB, no ids", [10_000] * 1000),
        row("1000 × 0-2000 B, no ids", mixed.integers(0, 2000, 1000).tolist()),
        row("1000 × 0-200 B, no ids", mixed.integers(0, 200, 1000).tolist()),
        row("100 × 1000 B, no ids", [1000] * 100),
        *[
            row(f"{count} × 1000 B, no ids", [1000] * count)
            for count in (32, 16, 10, 8, 7, 4, 2, 1)
        ],
        row("1 × 1000 B, own id", [1000], first_id=1),
        row("1 × 100 B, no ids", [100]),
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
