"""The work of one task: a split becomes runs of messages, from segments or through the server.

If a segment is missing when it is needed (retention, just replaced by a compressed twin, on another
machine), the rest is read through the server. Messages that the server does not have either are
lost: the task fails, or skips them if the query allows it.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from borzoi.model.errors import InvalidChecksum
from borzoi.records.batch import verify, walk
from borzoi.records.columnar import Run, check_run, parts
from borzoi.spark.broker import Broker, broker_of_worker
from borzoi.spark.offsets import DataLoss, PartitionKey
from borzoi.spark.options import SourceOptions
from borzoi.spark.plan import Split
from borzoi.spark.rows import Shape, batch_of, index_batch
from borzoi.spark.segments import SegmentGone, index_between, open_body, read_runs

#: Index entries per batch when the log is not read.
INDEX_ROWS = 256 * 1024
#: Messages requested by the first poll, before their size is known.
FIRST_POLL = 1000


def read_batches(split: Split, options: SourceOptions, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Record batches of about 4 MiB with exactly the messages of the split."""
    offset = split.start
    if split.pieces and not shape.needs_bodies:
        try:
            for batch in index_batches(split, shape):
                yield batch
                offset += batch.num_rows
        except SegmentGone:
            if options.segments == "direct-only":
                raise
        if offset == split.end:
            return
        split = Split(split.key, offset, split.end, split.size)
    for run in read_runs_of(split, options):
        yield batch_of(run, split.key, shape)


def read_runs_of(split: Split, options: SourceOptions) -> Iterator[Run]:
    """The messages of a split in order, in runs of about 4 MiB."""
    offset = split.start
    try:
        for piece in split.pieces:
            for start, run in read_runs(piece):
                _verify(run, options)
                yield run
                offset = start + run.count
    except SegmentGone:
        if options.segments == "direct-only":
            raise
    if offset < split.end:
        broker = broker_of_worker(options.connection)
        for run in poll_runs(broker, split.key, offset, split.end, options):
            _verify(run, options)
            yield run


def index_batches(split: Split, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Yield columns that the index holds, without opening the log."""
    for piece in split.pieces:
        _, entries = index_between(piece.directory, piece.base, piece.start, piece.end)
        for low in range(0, len(entries), INDEX_ROWS):
            some = entries[low : low + INDEX_ROWS]
            first = piece.start + low
            offsets = np.arange(first, first + len(some), dtype=np.int64)
            yield index_batch(split.key, offsets, some["timestamp"], shape)


def poll_runs(
    broker: Broker, key: PartitionKey, start: int, end: int, options: SourceOptions
) -> Iterator[Run]:
    """Yield the messages [start, end) by polls of about `maxPollBytes`."""
    count = FIRST_POLL
    while start < end:
        run = broker.run(key, start, min(count, end - start))
        if run.count == 0 or int(run.headers["offset"][0]) != start:
            start = _after_gap(key, start, end, run, options)
            continue
        check_run(run, start)
        yield from parts(run)
        start += run.count
        mean = max(1, len(run.buffer) // run.count)
        count = max(1, options.max_poll_bytes // mean)


def _after_gap(key: PartitionKey, wanted: int, end: int, run: Run, options: SourceOptions) -> int:
    """Return where to continue when the server does not have the wanted message."""
    kept = int(run.headers["offset"][0]) if run.count else None
    if options.fail_on_data_loss:
        first = "nothing from there on" if kept is None else f"{kept} on"
        raise DataLoss(
            f"{key.topic}[{key.partition}] lost messages: wanted {wanted} to {end - 1}, "
            f"the server keeps {first}; failOnDataLoss=false continues without them"
        )
    return end if kept is None or kept < wanted else min(kept, end)


def _verify(run: Run, options: SourceOptions) -> None:
    if options.verify == "checksum":
        wrong = verify(walk(run.buffer))
        if wrong is not None:
            offset = int(run.headers["offset"][wrong])
            raise InvalidChecksum(f"the checksum of message {offset} is wrong")


def first_header(split: Split) -> bytes:
    """The header of the first message of a split, from its segment."""
    piece = split.pieces[0]
    begin, _ = index_between(piece.directory, piece.base, piece.start, piece.start + 1)
    return bytes(open_body(piece.directory, piece.base).read(begin, begin + 64))
