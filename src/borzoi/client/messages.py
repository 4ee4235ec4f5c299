"""Messages as programs see them: one to send, one that was received, a batch of those."""

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import starmap
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from borzoi.client.plain_messages import Message as Message
from borzoi.client.plain_messages import ValueMessage as ValueMessage
from borzoi.model.errors import InvalidMessagesSize, MessageTooSmall
from borzoi.model.limits import HEADER_BYTES
from borzoi.model.value import Value
from borzoi.records.accelerator import native
from borzoi.records.header import HEADER, LENGTHS_AT, RESERVED_AT
from borzoi.records.user_headers import (
    HeaderKind,
    HeaderValue,
    PlainValue,
    encode_user_headers,
)
from borzoi.records.validation import LENGTHS, have_equal_lengths

# Type checkers see one class with these names.
if not TYPE_CHECKING and native is not None:
    from borzoi.client.compact_messages import Message
    from borzoi.client.compact_messages import ValueMessage as ValueMessage

#: Headers to send: the kind of a value follows its type, unless it is a `HeaderValue`.
Headers: TypeAlias = Mapping[str, PlainValue | HeaderValue]

#: What can be sent as the payload of a message.
Payload: TypeAlias = bytes | bytearray | memoryview | str


class NewMessage(Value):
    """A message to send with headers or an id.

    `id` is a 128-bit number that the message keeps; 0 lets the server choose one. A server that
    drops duplicates recognises them by it.
    """

    payload: Payload
    headers: Headers | None = None
    id: int = 0


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
        #: Makes messages from the bytes of the answer.
        self._unmade: Callable[[], Iterator[Message]] | None = None
        self._count = len(messages)

    @classmethod
    def of(cls, partition: int, current_offset: int, buffer: memoryview) -> "Polled":
        """The messages in the bytes of an answer, which the caller hands over."""
        polled = cls(partition, current_offset, [])
        count = native.count(buffer) if native is not None else None
        if native is not None and count is not None:
            polled._unmade = partial(native.messages, buffer, partition)
            polled._count = count
        elif (fields := _fields_of_all(buffer)) is not None:
            buffer = _with_partition(buffer, fields.size, partition)
            polled._unmade = partial(_iterate, fields, buffer)
            polled._count = len(buffer) // fields.size
        else:
            return cls(partition, current_offset, decode_messages(buffer, partition))
        polled._made = None
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
        return self._unmade()

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
    if native is not None and native.count(buffer) is not None:
        return list(native.messages(buffer, partition))
    if len(buffer) < HEADER_BYTES:
        if not len(buffer):
            return []
        raise MessageTooSmall(f"{len(buffer)} bytes are too few for a message")
    fields = _fields_of_all(buffer)
    if fields is not None:
        # The whole loop over the bytes runs in C: three times as fast as one in Python.
        copy = _with_partition(memoryview(bytes(buffer)), fields.size, partition)
        return list(_iterate(fields, copy))
    return _decode_mixed(buffer, partition)


def _iterate(fields: struct.Struct, buffer: memoryview) -> Iterator[Message]:
    return starmap(Message, fields.iter_unpack(buffer))


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
