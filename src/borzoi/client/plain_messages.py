"""Received messages in Python alone; `compact_messages.py` has those of the accelerator.

Both are `borzoi.client.messages.Message` to programs. This module says what a message can do.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec

from borzoi.model.value import Value
from borzoi.records.user_headers import HeaderKey, HeaderValue, PlainValue, decode_user_headers

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: How many characters of a payload `repr` shows.
_SHOWN: Final = 60

#: Where programs import messages from, also those that unpickle one.
_PUBLIC: Final = "borzoi.client.messages"


# A poll creates a thousand of these. The order of the fields is that of the bytes, so one loop in C
# reads a whole batch. They hold only numbers and bytes, so the garbage collector
# need not track them.
class Message(Value, gc=False):
    """A message that was received."""

    __module__ = _PUBLIC

    checksum: int
    id_bytes: bytes
    offset: int
    #: When the server stored it and when its producer created it, µs since the epoch.
    timestamp: int
    origin_timestamp: int
    partition: int
    payload: bytes
    #: As they were sent; `headers` reads them.
    encoded_headers: bytes

    @property
    def id(self) -> int:
        """The 128-bit id, chosen by the producer or the server."""
        return int.from_bytes(self.id_bytes, "little")

    @property
    def time(self) -> datetime:
        """When the server stored it."""
        return _EPOCH + timedelta(microseconds=self.timestamp)

    @property
    def origin_time(self) -> datetime:
        """When its producer created it, by the producer's clock."""
        return _EPOCH + timedelta(microseconds=self.origin_timestamp)

    @property
    def headers(self) -> dict[Any, PlainValue]:
        """The user headers with Python values; keys are texts unless a producer chose otherwise."""
        return {key.value: value.value for key, value in self.typed_headers.items()}

    @property
    def typed_headers(self) -> dict[HeaderKey, HeaderValue]:
        """The user headers with the kinds they were sent as."""
        return decode_user_headers(self.encoded_headers) if self.encoded_headers else {}

    def text(self) -> str:
        """The payload as UTF-8."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON."""
        return json.loads(self.payload)

    def __repr__(self) -> str:
        shown = repr(self.payload[:_SHOWN])
        if len(self.payload) > _SHOWN:
            shown += f"… ({len(self.payload)} bytes)"
        headers = f", headers={self.headers}" if self.encoded_headers else ""
        return (
            f"Message(partition={self.partition}, offset={self.offset}, payload={shown}{headers})"
        )


class ValueMessage(Message, Generic[T], gc=True):
    """A message that was received, with the value that its payload stands for."""

    __module__ = _PUBLIC

    value: T

    @classmethod
    def of(cls, message: Message, value: T) -> "ValueMessage[T]":
        return cls(*msgspec.structs.astuple(message), value)  # type: ignore[call-arg]
