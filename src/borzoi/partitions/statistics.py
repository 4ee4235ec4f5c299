"""Statistics of a partition."""

from typing import Final, NamedTuple

from borzoi.partitions.log import Log


class PartitionStatistics(NamedTuple):
    """Known without reading a file."""

    segments_count: int
    current_offset: int
    size: int
    messages_count: int


#: A partition that is not open yet.
EMPTY: Final = PartitionStatistics(0, 0, 0, 0)


def statistics_of(log: Log) -> PartitionStatistics:
    return PartitionStatistics(
        log.segments_count, current_offset_of(log), log.size, log.messages_count
    )


def current_offset_of(log: Log) -> int:
    """The offset of the last message readers can see; 0 also when there never was one."""
    return max(log.visible_offset - 1, 0)
