"""Messages as JSON: sent in a body, polled in an answer.

::

    sent     {"partitioning": {"kind": "balanced|partition_id|messages_key", "value": base64},
              "messages": [{"id": 0, "payload": base64, "user_headers": headers | base64 | null}]}
    polled   {"partition_id", "current_offset", "count", "messages": [
               {"header": {"checksum", "id", "offset", "timestamp", "origin_timestamp",
                           "user_headers_length", "payload_length", "reserved"},
                "payload": base64, "user_headers": headers | base64}]}
"""

import re
import struct
from collections.abc import Iterator
from typing import Final, Self

import msgspec

from borzoi.model.errors import InvalidCommand, InvalidKeyLength, InvalidMessagesCount
from borzoi.model.limits import HEADER_BYTES, MESSAGES_KEY_BYTES_MAX, U128_MAX
from borzoi.model.partitioning import Partitioning, PartitioningKind
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.commands.messages import PolledMessages, SendMessages
from borzoi.protocol.rest.inputs import Arguments, Input
from borzoi.protocol.rest.user_headers import (
    HeaderPair,
    HeadersDocument,
    headers_block,
    headers_document,
    sorted_headers_block,
)
from borzoi.protocol.rest.words import PARTITIONINGS
from borzoi.records.header import MessageHeader, pack_header, unpack_header

_INDEX: Final = struct.Struct("<IIQ")
_UUID: Final = re.compile(r"[0-9a-fA-F]{32}")


def _walk(messages: Buffer) -> Iterator[tuple[MessageHeader, bytes, bytes]]:
    """Header, payload and user headers of each message."""
    position = 0
    while position < len(messages):
        header = unpack_header(messages, position)
        payload_start = position + HEADER_BYTES
        headers_start = payload_start + header.payload_length
        position += header.size
        yield (
            header,
            bytes(messages[payload_start:headers_start]),
            bytes(messages[headers_start:position]),
        )


# ---- sent ---------------------------------------------------------------------------------------


class PartitioningInput(msgspec.Struct):
    kind: str
    value: bytes

    def __post_init__(self) -> None:
        PARTITIONINGS.member(self.kind)

    def partitioning(self) -> Partitioning:
        kind, size = PARTITIONINGS.member(self.kind), len(self.value)
        if size > MESSAGES_KEY_BYTES_MAX or (not size and kind is not PartitioningKind.BALANCED):
            raise InvalidKeyLength(f"a partitioning by {self.kind} with {size} bytes")
        if (kind is PartitioningKind.BALANCED and size) or (
            kind is PartitioningKind.PARTITION_ID and size != 4
        ):
            raise InvalidCommand(f"a partitioning by {self.kind} with {size} bytes")
        return Partitioning(kind, self.value)


class MessageInput(msgspec.Struct):
    payload: bytes
    id: int | str = 0
    user_headers: list[HeaderPair] | bytes | None = None

    def __post_init__(self) -> None:
        message_id(self.id)
        if not self.payload:
            raise ValueError("a payload has at least one byte")


def message_id(given: int | str) -> int:
    """The id that a number, its digits, or the hexadecimal form of a UUID stand for."""
    number = -1
    if isinstance(given, int):
        number = given
    elif given.isascii() and given.isdigit() and len(given) <= 39:
        number = int(given)
    elif _UUID.fullmatch(given.replace("-", "")):
        number = int(given.replace("-", ""), 16)
    if not 0 <= number <= U128_MAX:
        raise ValueError(f"{str(given)[:40]!r} is neither a u128 nor a UUID")
    return number


class SendInput(Input[SendMessages], forbid_unknown_fields=True):
    partitioning: PartitioningInput
    messages: list[MessageInput]

    def arguments(self, *, now: int) -> Arguments:
        partitioning = self.partitioning.partitioning()
        if not self.messages:
            raise InvalidMessagesCount("a send has at least one message")
        indexes, messages = bytearray(), bytearray()
        for message in self.messages:
            user_headers = sorted_headers_block(message.user_headers)
            lengths = len(user_headers), len(message.payload)
            header = MessageHeader(0, message_id(message.id), 0, 0, now, *lengths)
            messages += pack_header(header) + message.payload + user_headers
            indexes += _INDEX.pack(0, len(messages), 0)
        return {
            "partitioning": partitioning,
            "messages_count": len(self.messages),
            "indexes": memoryview(indexes),
            "messages": memoryview(messages),
        }

    @classmethod
    def of(cls, request: SendMessages) -> Self:
        """The messages without their origin timestamps, for which there is no field."""
        return cls(
            PartitioningInput(
                PARTITIONINGS.word(request.partitioning.kind), request.partitioning.value
            ),
            [
                MessageInput(payload, header.id, headers_document(user_headers))
                for header, payload, user_headers in _walk(request.messages)
            ],
        )


# ---- polled -------------------------------------------------------------------------------------


class HeaderDocument(msgspec.Struct):
    checksum: int
    id: int
    offset: int
    timestamp: int
    origin_timestamp: int
    user_headers_length: int
    payload_length: int
    reserved: int = 0


class MessageDocument(msgspec.Struct):
    header: HeaderDocument
    payload: bytes
    user_headers: HeadersDocument | None = None


class PolledDocument(msgspec.Struct):
    partition_id: int
    current_offset: int
    count: int
    messages: list[MessageDocument]


def polled_document(polled: PolledMessages) -> PolledDocument:
    return PolledDocument(
        polled.partition_id,
        polled.current_offset,
        polled.messages_count,
        [
            MessageDocument(HeaderDocument(*header), payload, headers_document(user_headers))
            for header, payload, user_headers in _walk(polled.messages)
        ],
    )


def polled_of(document: PolledDocument) -> PolledMessages:
    """The answer of the wire; `ValueError` when the document contradicts itself."""
    if document.count != len(document.messages):
        raise ValueError(f"{len(document.messages)} messages where {document.count} are announced")
    return PolledMessages(
        document.partition_id,
        document.current_offset,
        document.count,
        b"".join(map(_message_bytes, document.messages)),
    )


def _message_bytes(message: MessageDocument) -> bytes:
    header = MessageHeader(*msgspec.structs.astuple(message.header))
    user_headers = headers_block(message.user_headers)
    if (header.payload_length, header.user_headers_length) != (
        len(message.payload),
        len(user_headers),
    ):
        raise ValueError(f"the lengths of the message at offset {header.offset} do not fit")
    try:
        return pack_header(header) + message.payload + user_headers
    except (struct.error, OverflowError) as fault:
        raise ValueError(f"the message at offset {header.offset}: {fault}") from None
