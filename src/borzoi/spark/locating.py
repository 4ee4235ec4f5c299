"""Locates the messages of a query, for the planner: from a server or from a directory.

With a server, partitions and offsets come from it. Segments are read directly only if a poll of the
first message of the range returns the same header as the file: that proves that the directory
belongs to the server, that the user may read the topic, and that the stored bytes are not
encrypted. Encrypted messages have another length and checksum on the disk.

Without a server (`segments=direct-only`) the data directory of a stopped server is read:
`subscribe` then takes ids, because only a server knows names.
"""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from borzoi.model.errors import BorzoiError
from borzoi.spark.broker import Broker
from borzoi.spark.offsets import Extent, PartitionKey, Position, Range
from borzoi.spark.options import InvalidOption, SourceOptions
from borzoi.spark.plan import Split, SplitLimits, plan
from borzoi.spark.reading import first_header
from borzoi.spark.segments import (
    SealedSegment,
    SegmentGone,
    all_segments,
    index_between,
    offset_from_time,
    partition_directory,
    read_index,
    sealed_segments,
)

#: The bytes of a header that encryption does not change: id, offset and both timestamps.
UNENCRYPTED = slice(8, 48)


class Locator:
    """Answers planners; keeps a connection and the results of directory checks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._has_server = options.segments != "direct-only"
        self._broker = Broker(options.connection)
        self._extents: dict[PartitionKey, Extent] = {}
        self._directories: dict[str, Path | None] = {}
        #: Partitions whose directory was compared with the server, and the result.
        self._confirmed: dict[PartitionKey, bool] = {}

    def close(self) -> None:
        self._broker.close()

    # ---- partitions -----------------------------------------------------------------------------

    def extents(self) -> dict[PartitionKey, Extent]:
        """Return the present extent of every partition."""
        if self._has_server:
            found = self._broker.extents(self._topics(), self._options.assign)
            if not found and not self._extents and self._options.pattern is None:
                raise InvalidOption(f"there is no topic {self._options.subscribe[0]!r}")
        else:
            found = self._extents_on_disk()
        self._extents = found
        return dict(found)

    def known_extents(self) -> dict[PartitionKey, Extent]:
        """Return the extents from the last call of `extents`."""
        return self._extents

    def _topics(self) -> Sequence[str]:
        if self._options.pattern is None:
            return self._options.subscribe
        return self._broker.matching_topics(self._options.pattern)

    def _extents_on_disk(self) -> dict[PartitionKey, Extent]:
        found = {}
        for name in self._options.subscribe:
            folder = self._topic_directory(name) / "partitions"
            numbers = sorted(int(p.name) for p in folder.glob("*") if p.name.isdigit())
            if not numbers:
                raise InvalidOption(f"{folder} has no partitions; subscribe takes ids here")
            for number in numbers:
                wanted = self._options.assign
                if wanted is not None and number not in wanted[name]:
                    continue
                segments = all_segments(folder / f"{number}")
                first = segments[0].base if segments else 0
                last = segments[-1].end if segments else 0
                found[PartitionKey(name, number)] = Extent(first, last, 1)
        return found

    def _topic_directory(self, name: str) -> Path:
        assert self._options.data_directory is not None
        stream, _, topic = name.partition("/")
        if not (stream.isdigit() and topic.isdigit()):
            raise InvalidOption(
                f"segments=direct-only reads a directory, which has ids and no names: "
                f"subscribe to 0/0, not {name}"
            )
        path = partition_directory(self._options.data_directory, int(stream), int(topic), 0)
        return path.parent.parent

    # ---- times and marks ------------------------------------------------------------------------

    def find_time(self, key: PartitionKey, micros: int) -> int | None:
        """Return the offset of the first message at or after the time; None if there is none."""
        if self._has_server:
            return self._broker.find_time(key, micros)
        for segment in all_segments(self._directory(key)):
            offset = offset_from_time(segment, micros)
            if offset < segment.end:
                return offset
        return None

    def timestamp_at(self, key: PartitionKey, offset: int) -> int | None:
        if self._has_server:
            return self._broker.timestamp_at(key, offset)
        for segment in all_segments(self._directory(key)):
            if segment.base <= offset < segment.end:
                entries = read_index(segment.directory, segment.base, offset - segment.base, 1)
                return int(entries["timestamp"][0])
        return None

    def changed(self, key: PartitionKey, position: Position) -> str | None:
        """Whether the message before a position differs from the one the query read there."""
        if not position.mark:
            return None
        found = self.timestamp_at(key, position.offset - 1)
        if found is None or found == position.mark:
            return None
        return (
            f"{key.topic}[{key.partition}] was purged and written again: message "
            f"{position.offset - 1} is not the one that was read"
        )

    def store(self, consumer: str, positions: dict[PartitionKey, Position]) -> None:
        """Store processed offsets; if the server fails to, the next call stores them."""
        if not self._has_server:
            return
        for key, position in positions.items():
            if position.offset > 0 and position.mark:
                try:
                    self._broker.store_offset(consumer, key, position.offset - 1)
                except BorzoiError:
                    # The checkpoint is authoritative; this is for lag displays and retention.
                    return

    # ---- segments -------------------------------------------------------------------------------

    def plan(self, spans: Sequence[Range], limits: SplitLimits) -> list[Split]:
        """Return splits of the ranges; direct ones only if the directory was verified."""

        def split(is_direct: bool) -> list[Split]:
            return plan(
                spans,
                segments_of=self._segments if is_direct else lambda _: (),
                ends_of=ends_between,
                mean_bytes_of=lambda key: self._extents[key].mean_bytes or 1,
                limits=limits,
            )

        if self._options.segments == "server" or self._options.data_directory is None:
            return split(is_direct=False)
        try:
            return split(is_direct=True)
        except SegmentGone:
            if self._options.segments != "auto":
                raise
            return split(is_direct=False)

    def _segments(self, key: PartitionKey) -> Sequence[SealedSegment]:
        directory = self._directory(key)
        if not self._has_server:
            return all_segments(directory)
        segments = sealed_segments(directory)
        if segments and key not in self._confirmed:
            self._confirmed[key] = self._is_confirmed(key, segments)
        return segments if segments and self._confirmed[key] else ()

    def _directory(self, key: PartitionKey) -> Path:
        if key.topic not in self._directories:
            self._directories[key.topic] = self._find_directory(key.topic)
        found = self._directories[key.topic]
        assert found is not None
        return found / "partitions" / f"{key.partition}"

    def _find_directory(self, name: str) -> Path:
        if not self._has_server:
            return self._topic_directory(name)
        stream = self._broker.stream_id(name)
        topic = self._broker.topic(name)
        data = self._options.data_directory
        assert data is not None
        assert stream is not None
        assert topic is not None
        return partition_directory(data, stream, topic.id, 0).parent.parent

    def _is_confirmed(self, key: PartitionKey, segments: Sequence[SealedSegment]) -> bool:
        """Whether server and directory have the same message."""
        at = max(segments[0].base, self._extents[key].earliest)
        segment = next((each for each in segments if each.base <= at < each.end), None)
        if segment is None:
            return False
        witness = plan(
            [Range(key, at, at + 1)],
            segments_of=lambda _: [segment],
            ends_of=ends_between,
            mean_bytes_of=lambda _: 1,
            limits=SplitLimits(1),
        )
        stored = first_header(witness[0])
        answered = bytes(self._broker.run(key, at, 1).buffer[:64])
        if stored == answered:
            return True
        if self._options.segments == "direct":
            same = stored[UNENCRYPTED] == answered[UNENCRYPTED]
            raise InvalidOption(
                f"{segment.directory} cannot be read directly: "
                + ("its messages are encrypted" if same else "it does not belong to the server")
                + "; segments=server reads through the server"
            )
        return False

    # ---- bytes ----------------------------------------------------------------------------------

    def size(self, key: PartitionKey, start: int, end: int) -> int:
        """Bytes of the messages [start, end), exact where there is an index."""
        found, at = 0, start
        for segment in self._segments_with_index(key):
            if segment.base <= at < min(segment.end, end):
                stop = min(segment.end, end)
                begin, ends = ends_between(segment, at, stop)
                found, at = found + int(ends[-1]) - begin, stop
        return found + max(0, end - at) * max(1, self._extents[key].mean_bytes)

    def offset_after(self, key: PartitionKey, start: int, size: int) -> int:
        """Return the offset about `size` bytes after `start`; at least one message further."""
        at, left = start, size
        for segment in self._segments_with_index(key):
            if segment.base <= at < segment.end:
                begin, ends = ends_between(segment, at, segment.end)
                fitting = bisect_right(ends, begin + left)
                if fitting < len(ends):
                    return max(start + 1, at + fitting)
                at, left = segment.end, left - (int(ends[-1]) - begin)
        return max(start + 1, at + left // max(1, self._extents[key].mean_bytes))

    def _segments_with_index(self, key: PartitionKey) -> Sequence[SealedSegment]:
        is_remote = self._options.data_directory is None or self._options.segments == "server"
        return () if is_remote else self._segments(key)


def ends_between(segment: SealedSegment, start: int, end: int) -> tuple[int, Any]:
    """Where the messages [start, end) begin and where each ends, by the mapped index."""
    begin, entries = index_between(segment.directory, segment.base, start, end)
    return begin, entries["position"]
