"""From a polling strategy to a range of the log."""

from asyncio import Future

from borzoi.model.consuming import PollingKind, PollingStrategy
from borzoi.model.value import Value
from borzoi.partitions.log import Log
from borzoi.storage.reading import Reading


class Polled(Value):
    """The answer to a poll."""

    reading: Reading
    #: The offset of the partition's last message; 0 also when it never had one.
    current_offset: int


def start_of(
    strategy: PollingStrategy, count: int, log: Log, stored: int | None
) -> "int | Future[int]":
    """The offset a poll begins with; at or behind `log.visible_offset` there is nothing to read.

    `stored` is the offset the consumer processed last, if it ever said so.
    """
    match strategy.kind:
        case PollingKind.OFFSET:
            return strategy.value
        case PollingKind.TIMESTAMP:
            return log.offset_at(strategy.value)
        case PollingKind.FIRST:
            return log.first_offset
        case PollingKind.LAST:
            return max(log.visible_offset - count, 0)
        case PollingKind.NEXT:
            return log.first_offset if stored is None else stored + 1
