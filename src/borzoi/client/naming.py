"""How callers name topics, partitions and places to read from.

==========================  =====================================================================
a topic                     ``"orders/events"``, or two identifiers: ``("orders", "events")``
an identifier               a name, or a number: ``"orders"``, ``3``
where a send goes           `partition=2`, `key="customer-7"`, or neither: the next partition
where a poll starts         ``"first"``, ``"last"``, ``"next"``, an offset, or a `datetime`
==========================  =====================================================================

Inside ``"stream/topic"`` digits are an id, as in the published clients: ``"1/orders"`` is
the topic *orders* of the stream with the id 1. To use a name
of digits, or one with a slash, pass two identifiers: there a string is always a name.
"""

from datetime import datetime
from typing import Final, Literal, TypeAlias

from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import InvalidFormat, InvalidIdentifier, InvalidKeyLength
from borzoi.model.identifiers import Identifier, identifier_of
from borzoi.model.limits import U32_MAX, U64_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.model.units import SECOND

#: ``"stream/topic"``, or the identifiers of both.
TopicName: TypeAlias = str | tuple[Identifier, Identifier]

#: Where a poll starts.
Start: TypeAlias = Literal["first", "last", "next"] | int | datetime | PollingStrategy

_WORDS: Final = {
    "first": PollingStrategy.first(),
    "last": PollingStrategy.last(),
    "next": PollingStrategy.next(),
}


def topic_of(topic: TopicName) -> tuple[Identifier, Identifier]:
    """The identifiers of the stream and the topic."""
    if isinstance(topic, tuple):
        stream_id, topic_id = topic
        return stream_id, topic_id
    stream, slash, name = topic.partition("/")
    if not slash or not stream or not name or "/" in name:
        raise InvalidIdentifier(
            f"{topic!r} names no topic: write 'stream/topic', or a pair of names or numbers"
        )
    return identifier_of(stream), identifier_of(name)


def partitioning_of(partition: int | None, key: str | bytes | None) -> Partitioning:
    """Where a send goes."""
    if key is not None:
        if partition is not None:
            raise InvalidFormat("a send has a partition or a key, not both")
        try:
            return Partitioning.key(key.encode() if isinstance(key, str) else bytes(key))
        except InvalidKeyLength:
            raise InvalidKeyLength(f"a key has 1 to 255 bytes, not {len(key)}") from None
    if partition is None:
        return _BALANCED
    if not 0 <= partition <= U32_MAX:
        raise InvalidFormat(f"partition {partition} is not within 0..{U32_MAX}")
    return Partitioning.partition(partition)


_BALANCED: Final = Partitioning.balanced()


def strategy_of(start: Start) -> PollingStrategy:
    """Where a poll starts."""
    if isinstance(start, PollingStrategy):
        return start
    if isinstance(start, datetime):
        return PollingStrategy.timestamp(microseconds_of(start))
    if isinstance(start, int):
        if not 0 <= start <= U64_MAX:
            raise InvalidFormat(f"offset {start} is not within 0..{U64_MAX}")
        return PollingStrategy.offset(start)
    strategy = _WORDS.get(start)
    if strategy is None:
        raise InvalidFormat(
            f"cannot start at {start!r}: 'first', 'last', 'next', an offset and a datetime are"
            " allowed"
        )
    return strategy


def microseconds_of(moment: datetime) -> int:
    """Microseconds since the epoch; a naive `datetime` is in the machine's time zone."""
    return round(moment.timestamp() * SECOND)
