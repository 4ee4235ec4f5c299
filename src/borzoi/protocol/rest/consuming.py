"""The consumer of a poll or an offset, as a query or a body names it."""

from typing import Annotated, Any, Final, Literal, Self

import msgspec

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import FeatureUnavailable, InvalidIdentifier
from borzoi.model.identifiers import Identifier, identifier_of
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.rest.inputs import U32, U64, Arguments, Input
from borzoi.protocol.rest.words import POLLINGS

#: Each word may be cut down to its first letter.
_POLLING_KINDS: Final = {
    text: kind for kind in PollingKind for word in [POLLINGS.word(kind)] for text in (word, word[0])
}


def consumer_of(consumer_id: Identifier) -> Consumer:
    return Consumer(ConsumerKind.CONSUMER, consumer_id)


def consumer_id_of(consumer: Consumer) -> Identifier:
    """The consumer as a query names it. HTTP has no sessions, so it has no groups."""
    if consumer.kind is not ConsumerKind.CONSUMER:
        raise FeatureUnavailable("a consumer group cannot read over HTTP, which has no sessions")
    return consumer.id


def printed_identifier(identifier: Identifier) -> str:
    """The identifier as a path or a query says it, where digits are always a number."""
    text = str(identifier)
    if isinstance(identifier, str) and identifier_of(text) != identifier:
        raise InvalidIdentifier(f"over HTTP the name {text!r} would be read as a number")
    return text


def _typed_identifier(text: str) -> Identifier:
    try:
        return identifier_of(text)
    except InvalidIdentifier as fault:
        raise ValueError(str(fault)) from None


class PollInput(Input[PollMessages]):
    consumer_id: str = "1"
    partition_id: U32 = 0
    kind: str = "offset"
    value: U64 = 0
    count: U32 = 10
    auto_commit: Literal["true", "false"] = "false"
    #: borzoi: milliseconds that an empty poll waits for messages.
    wait_ms: U32 | None = None

    def __post_init__(self) -> None:
        Input.__post_init__(self)
        _typed_identifier(self.consumer_id)
        if self.kind not in _POLLING_KINDS:
            raise ValueError(f"{self.kind[:40]!r} is none of {', '.join(_POLLING_KINDS)}")

    def arguments(self, *, now: int) -> Arguments:
        return {
            "consumer": consumer_of(_typed_identifier(self.consumer_id)),
            "partition_id": self.partition_id,
            "strategy": PollingStrategy(_POLLING_KINDS[self.kind], self.value),
            "count": self.count,
            "auto_commit": self.auto_commit == "true",
            "wait_ms": self.wait_ms or 0,
        }

    @classmethod
    def of(cls, request: PollMessages) -> Self:
        return cls(
            printed_identifier(consumer_id_of(request.consumer)),
            request.partition_id or 0,
            POLLINGS.word(request.strategy.kind),
            request.strategy.value,
            request.count,
            "true" if request.auto_commit else "false",
            request.wait_ms or None,
        )


class FollowInput(Input[Any]):
    """Which messages to listen to. `access_token` is for browsers, whose event sources have no
    headers."""

    consumer_id: str = "1"
    partition_id: U32 = 0
    kind: str = "next"
    value: U64 = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    access_token: str | None = None

    def __post_init__(self) -> None:
        PollInput(self.consumer_id, self.partition_id, self.kind, self.value)

    def arguments(self, *, now: int) -> Arguments:
        return {
            "consumer_id": _typed_identifier(self.consumer_id),
            "partition_id": self.partition_id,
            "strategy": PollingStrategy(_POLLING_KINDS[self.kind], self.value),
            "count": self.count,
        }

    @classmethod
    def of(cls, request: Any) -> Self:
        return cls(
            printed_identifier(request.consumer_id),
            request.partition_id,
            POLLINGS.word(request.strategy.kind),
            request.strategy.value,
            request.count,
        )


class OffsetInput(Input[GetConsumerOffset]):
    consumer_id: str = "1"
    partition_id: U32 = 0

    def __post_init__(self) -> None:
        _typed_identifier(self.consumer_id)

    def arguments(self, *, now: int) -> Arguments:
        consumer = consumer_of(_typed_identifier(self.consumer_id))
        return {"consumer": consumer, "partition_id": self.partition_id}

    @classmethod
    def of(cls, request: GetConsumerOffset) -> Self:
        consumer_id = consumer_id_of(request.consumer)
        return cls(printed_identifier(consumer_id), request.partition_id or 0)


class StoreOffsetInput(Input[StoreConsumerOffset]):
    offset: U64
    consumer_id: str | U32 = 1
    partition_id: U32 | None = None

    def __post_init__(self) -> None:
        Input.__post_init__(self)
        _typed_identifier(str(self.consumer_id))

    def arguments(self, *, now: int) -> Arguments:
        return {
            "consumer": consumer_of(_typed_identifier(str(self.consumer_id))),
            "partition_id": self.partition_id,
            "offset": self.offset,
        }

    @classmethod
    def of(cls, request: StoreConsumerOffset) -> Self:
        consumer_id = printed_identifier(consumer_id_of(request.consumer))
        return cls(request.offset, consumer_id, request.partition_id)


class DeleteOffsetInput(Input[DeleteConsumerOffset]):
    partition_id: U32 | None = None
