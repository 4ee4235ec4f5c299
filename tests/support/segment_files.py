"""Segments as a server leaves them on the disk, made without one."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.record_strategies import sent, stored

from borzoi.model.topics import Compression
from borzoi.records.batch import Batch, index_entries
from borzoi.records.compression import compress_frames, cut
from borzoi.records.message import Message

SUFFIXES = {
    Compression.NONE: ".log",
    Compression.GZIP: ".log.gz",
    Compression.LZ4: ".log.lz4",
    Compression.ZSTD: ".log.zst",
}
#: Timestamp of the first batch, and the microseconds between two.
FIRST_TIME, STEP = 1_700_000_000_000_000, 1000


def write_segment(
    directory: Path,
    base: int,
    batches: Sequence[Sequence[Message]],
    compression: Compression = Compression.NONE,
) -> int:
    """Write log and index of a segment; the offset behind its last message.

    Batch n has the timestamp FIRST_TIME + n × STEP.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log, index = bytearray(), bytearray()
    offset = base
    for number, messages in enumerate(batches):
        timestamp = FIRST_TIME + number * STEP
        batch: Batch = stored(sent(messages), base_offset=offset, timestamp=timestamp)
        index += index_entries(
            batch, relative_offset=offset - base, position=len(log), timestamp=timestamp
        )
        log += batch.messages
        offset += len(messages)
    content = bytes(log)
    if compression is not Compression.NONE:
        content = b"".join(compress_frames(compression, cut(content, 1024), 1024))
    (directory / f"{base:020}{SUFFIXES[compression]}").write_bytes(content)
    (directory / f"{base:020}.index").write_bytes(bytes(index))
    return offset
