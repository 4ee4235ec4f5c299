"""Messages as programs see them: one to send, one that was received, a batch of those."""

import json
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import starmap
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np

from borzoi.model.errors import InvalidMessagesSize, MessageTooSmall
from borzoi.model.limits import HEADER_BYTES
from borzoi.records.header import HEADER, LENGTHS_AT, RESERVED_AT
from borzoi.records.user_headers import (
    HeaderKey,
    HeaderKind,
    HeaderValue,
    PlainValue,
    decode_user_headers,
    encode_user_headers,
)
from borzoi.records.validation import LENGTHS, have_equal_lengths

#: Headers to send: the kind of a value follows its type, unless it is a `HeaderValue`.
Headers: TypeAlias = Mapping[str, PlainValue | HeaderValue]

#: What can be sent as the payload of a message.
Payload: TypeAlias = bytes | bytearray | memoryview | str

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: How many characters of a payload `repr` shows.
_SHOWN: Final = 60


class NewMessage(msgspec.Struct, frozen=True):
    """A message to send with headers or an id.

    `id` is a 128-bit number that the message keeps; 0 lets the server choose one. A server that
    drops duplicates recognises them by it.
    """

    payload: Payload
    headers: Headers | None = None
    id: int = 0


# A poll creates a thousand of these. The order of the fields is that of the bytes, so one loop in C
# reads a whole batch. They hold only numbers and bytes, so the garbage collector
# need not track them.
class Message(msgspec.Struct, frozen=True, gc=False):
    """A message that was received."""

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


class ValueMessage(Message, Generic[T], frozen=True, gc=True):
    """A message that was received, with the value that its payload stands for."""

    value: T

    @classmethod
    def of(cls, message: Message, value: T) -> "ValueMessage[T]":
        return cls(*msgspec.structs.astuple(message), value)  # type: ignore[call-arg]


class Polled:
    """What a poll found: messages of one partition, in the order of their offsets.

    It can be iterated over and has a length; one without messages is false. `current_offset` is
    the offset of the last message that the partition has. Messages are decoded on demand from
    the bytes of the answer: a program that iterates never holds all of them, which is most of
    their cost.
    """

    __slots__ = ("_count", "_made", "_unmade", "current_offset", "partition")

    def __init__(self, partition: int, current_offset: int, messages: list[Message]) -> None:
        self.partition = partition
        self.current_offset = current_offset
        self._made: list[Message] | None = messages
        #: The bytes of messages that are all of one size, and how to read one of them.
        self._unmade: tuple[struct.Struct, memoryview] | None = None
        self._count = len(messages)

    @classmethod
    def of(cls, partition: int, current_offset: int, buffer: memoryview) -> "Polled":
        """The messages in the bytes of an answer, which the caller hands over."""
        fields = _fields_of_all(buffer)
        if fields is None:
            return cls(partition, current_offset, decode_messages(buffer, partition))
        buffer = _with_partition(buffer, fields.size, partition)
        polled = cls(partition, current_offset, [])
        polled._made = None
        polled._unmade = fields, buffer
        polled._count = len(buffer) // fields.size
        return polled

    @property
    def messages(self) -> list[Message]:
        """All of them; the same objects each time."""
        if self._made is None:
            self._made = list(self)
            self._unmade = None
        return self._made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        if self._unmade is None:
            return iter(self.messages)
        fields, buffer = self._unmade
        return starmap(Message, fields.iter_unpack(buffer))

    def __getitem__(self, index: int) -> Message:
        return self.messages[index]

    def __repr__(self) -> str:
        found = f"{len(self)} messages"
        if self.messages:
            found += f", offsets {self.messages[0].offset} to {self.messages[-1].offset}"
        return f"<Polled partition {self.partition}: {found} of {self.current_offset}>"


def encoded_headers(headers: Headers | None) -> bytes:
    """Encode headers to send."""
    if not headers:
        return b""
    return encode_user_headers(
        {
            HeaderValue.of(key, HeaderKind.STRING): (
                value if isinstance(value, HeaderValue) else HeaderValue.of(value)
            )
            for key, value in headers.items()
        }
    )


def decode_messages(buffer: memoryview, partition: int) -> list[Message]:
    """The messages of a poll's answer, with copies of their bytes."""
    if len(buffer) < HEADER_BYTES:
        if not len(buffer):
            return []
        raise MessageTooSmall(f"{len(buffer)} bytes are too few for a message")
    fields = _fields_of_all(buffer)
    if fields is not None:
        # The whole loop over the bytes runs in C: three times as fast as one in Python.
        copy = _with_partition(memoryview(bytes(buffer)), fields.size, partition)
        return list(starmap(Message, fields.iter_unpack(copy)))
    return _decode_mixed(buffer, partition)


def _fields_of_all(buffer: memoryview) -> struct.Struct | None:
    """The fields of each message, where all of them have the same sizes."""
    if len(buffer) < HEADER_BYTES:
        return None
    user_headers, payload, _ = LENGTHS.unpack_from(buffer, LENGTHS_AT)
    size = HEADER_BYTES + payload + user_headers
    if size > len(buffer) or not have_equal_lengths(buffer, size):
        return None
    return _fields(payload, user_headers)


@lru_cache(maxsize=64)
def _fields(payload: int, user_headers: int) -> struct.Struct:
    """The fields of one message whose parts have these sizes; see `_with_partition`."""
    return struct.Struct(f"<Q16sQQQ8xQ{payload}s{user_headers}s")


def _with_partition(buffer: memoryview, size: int, partition: int) -> memoryview:
    """Write the partition into the reserved field of each message, in place if that is allowed.

    It is not part of the bytes of a message. Adding it to each message takes 15 % of the time that
    all of them take.
    """
    if buffer.readonly:
        buffer = memoryview(bytearray(buffer))
    reserved = np.ndarray(len(buffer) // size, "<u8", buffer, RESERVED_AT, (size,))
    reserved[...] = partition
    return buffer


def _decode_mixed(buffer: memoryview, partition: int) -> list[Message]:
    messages: list[Message] = []
    start, length = 0, len(buffer)
    unpack = HEADER.unpack_from
    while start < length:
        body = start + HEADER_BYTES
        if body > length:
            raise MessageTooSmall(f"{length - start} bytes are too few for a message")
        # The last field is reserved: servers of 0.8 store what a producer put there.
        checksum, id_bytes, offset, timestamp, origin, user_headers, payload, _ = unpack(
            buffer, start
        )
        middle = body + payload
        start = middle + user_headers
        if start > length:
            raise InvalidMessagesSize(f"message {len(messages)} of the answer is cut off")
        messages.append(
            Message(
                checksum,
                id_bytes,
                offset,
                timestamp,
                origin,
                partition,
                bytes(buffer[body:middle]),
                bytes(buffer[middle:start]) if user_headers else b"",
            )
        )
    return messages
