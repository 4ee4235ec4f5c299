"""From a polling strategy to a range of the log."""

import logging
from asyncio import Future

import msgspec

from borzoi.model.consuming import PollingKind, PollingStrategy
from borzoi.partitions.encrypting import decrypted
from borzoi.partitions.log import Log
from borzoi.security.encryption import Cipher
from borzoi.storage.reading import Reading

logger = logging.getLogger(__name__)


class Polled(msgspec.Struct, frozen=True):
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


def with_clear_bodies(reading: Reading, cipher: Cipher) -> Reading:
    """The same messages decrypted, which takes them out of their files."""
    if not reading.count:
        return reading
    clear = decrypted(memoryview(reading.materialise()), cipher)
    if clear.unreadable:
        logger.warning(
            "%d of %d messages from offset %d on were left out of a poll: the encryption key does"
            " not open them",
            clear.unreadable,
            reading.count,
            reading.first_offset,
        )
    return Reading(
        reading.first_offset, clear.count, tail=[clear.messages], left_out=clear.unreadable
    )
