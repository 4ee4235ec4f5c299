"""What a batch costs between the socket and the log: receive + stamp + index entries.

The measure is a plain loop that hashes each message and does nothing else, in the same run, because
the machine's own speed varies more than what is measured. Each row is the best of five rounds.

    python bench/stamp.py
"""

import gc
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
from xxhash import xxh3_64_intdigest

from borzoi.records.batch import SMALL, Batch, index_entries, receive, receive_at, stamp
from borzoi.records.fresh_ids import FreshIds, mixed_words
from borzoi.records.layouts import Layouts, Place

ROUNDS = 5
#: Messages that go through each round, whatever the size of a batch.
MESSAGES_PER_ROUND = 100_000

NEW_IDS = FreshIds(mixed_words(os.urandom))


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


def through(messages: memoryview, indexes: memoryview, count: int) -> None:
    stamped(receive(messages, indexes, count))


def again(
    layouts: Layouts, place: Place, messages: memoryview, indexes: memoryview, count: int
) -> None:
    """The same in memory where a batch of this shape lay before, as from the pool."""
    if count < SMALL:
        through(messages, indexes, count)
    else:
        stamped(receive_at(layouts, place, messages, indexes))


def stamped(batch: Batch) -> None:
    stamp(batch, base_offset=1_000_000, timestamp=1_700_000_000_000_000, new_ids=NEW_IDS)
    index_entries(batch, relative_offset=1000, position=4096, timestamp=1_700_000_000_000_000)


def medians(
    works: list[Callable[[memoryview], None]], pristine: bytes, batches: int
) -> list[float]:
    """Seconds for each work, taken in turns so that what disturbs one disturbs the others.

    The bytes are fresh each time, as they are after a receive.
    """
    buffer = bytearray(len(pristine) + 52)
    view = memoryview(buffer)[52:]  # where a request puts them: not aligned to anything
    taken: list[list[int]] = [[] for _ in works]
    clock = time.perf_counter_ns
    for _ in range(batches):
        for work, times in zip(works, taken, strict=True):
            view[:] = pristine
            begin = clock()
            work(view)
            times.append(clock() - begin)
    return [statistics.median(times) / 1e9 for times in taken]


def row(name: str, sizes: list[int], *, first_id: int = 0) -> None:
    raw_indexes, pristine = sent(sizes, first_id)
    indexes, count = memoryview(raw_indexes), len(sizes)
    ends = np.frombuffer(raw_indexes, "<u4")[1::4].tolist()
    slices = [slice(a + 8, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    layouts, place = Layouts(), (0, len(pristine), count)
    works: list[Callable[[memoryview], None]] = [
        lambda view: hash_only(view, slices),
        lambda view: through(view, indexes, count),
        lambda view: again(layouts, place, view, indexes, count),
    ]
    rounds = [medians(works, pristine, MESSAGES_PER_ROUND // count) for _ in range(ROUNDS)]
    plain, first, later = (min(times) for times in zip(*rounds, strict=True))
    print(
        f"| {name} | {plain * 1e6:.1f} | {first * 1e6:.1f} | {first / plain:.2f} "
        f"| {later * 1e6:.1f} | {later / plain:.2f} | {count / later / 1e6:.2f} |"
    )


def main() -> None:
    gc.disable()
    mixed = np.random.default_rng(1)
    print(
        "| batch | hash loop alone, µs | receive + stamp + index, µs | ratio "
        "| where one like it lay before, µs | ratio | M messages/s |"
    )
    print("|---|---|---|---|---|---|---|")
    row("1000 × 1000 B, no ids", [1000] * 1000)
    row("1000 × 1000 B, own ids", [1000] * 1000, first_id=1)
    row("1000 × 100 B, no ids", [100] * 1000)
    row("1000 × 100 B, own ids", [100] * 1000, first_id=1)
    row("1000 × 300 B, no ids", [300] * 1000)
    row("1000 × 10 kB, no ids", [10_000] * 1000)
    row("1000 × 0-2000 B, no ids", mixed.integers(0, 2000, 1000).tolist())
    row("1000 × 0-200 B, no ids", mixed.integers(0, 200, 1000).tolist())
    row("100 × 1000 B, no ids", [1000] * 100)
    for count in (32, 16, 8, 7, 4, 2, 1):
        row(f"{count} × 1000 B, no ids", [1000] * count)
    row("1 × 1000 B, own id", [1000], first_id=1)
    row("1 × 100 B, no ids", [100])


if __name__ == "__main__":
    main()
