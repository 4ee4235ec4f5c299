"""Who reads, and from where."""

from enum import IntEnum
from typing import Self

from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value


class ConsumerKind(IntEnum):
    CONSUMER = 1
    GROUP = 2


class Consumer(Value):
    """A single reader, or a group whose members share the partitions of a topic."""

    kind: ConsumerKind
    id: Identifier


class PollingKind(IntEnum):
    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5


class PollingStrategy(Value):
    """Where a poll starts; `value` is an offset or a timestamp, and 0 for the other kinds."""

    kind: PollingKind
    value: int = 0

    @classmethod
    def offset(cls, offset: int) -> Self:
        return cls(PollingKind.OFFSET, offset)

    @classmethod
    def timestamp(cls, timestamp: int) -> Self:
        return cls(PollingKind.TIMESTAMP, timestamp)

    @classmethod
    def first(cls) -> Self:
        return cls(PollingKind.FIRST)

    @classmethod
    def last(cls) -> Self:
        return cls(PollingKind.LAST)

    @classmethod
    def next(cls) -> Self:
        return cls(PollingKind.NEXT)
