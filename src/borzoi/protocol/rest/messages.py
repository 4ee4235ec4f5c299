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
from collections.abc import Sequence
from typing import Annotated, Final, Self
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from borzoi.model.errors import InvalidCommand, InvalidKeyLength, InvalidMessagesCount
from borzoi.model.limits import MESSAGES_KEY_BYTES_MAX, U128_MAX
from borzoi.model.partitioning import Partitioning, PartitioningKind
from borzoi.protocol.commands.messages import PolledMessages, SendMessages
from borzoi.protocol.rest.faults import bad_query, bad_shape
from borzoi.protocol.rest.inputs import U32, Arguments, Input
from borzoi.protocol.rest.user_headers import (
    HeaderPair,
    HeadersDocument,
    headers_block,
    headers_document,
    sorted_headers_block,
)
from borzoi.protocol.rest.words import PARTITIONINGS
from borzoi.records.header import MessageHeader, pack_header
from borzoi.records.message import Message, decode_messages, encode_fields

_UUID: Final = re.compile(r"[0-9a-fA-F]{32}")


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


class SendQuery(msgspec.Struct):
    """Where lines go that say nothing about it themselves: to a partition, by a key, in turn."""

    partition_id: U32 | None = None
    key: str | None = None


def partitioning_in(query: str) -> PartitioningInput:
    """The partitioning that the query of a send names."""
    pairs = parse_qsl(query, keep_blank_values=True)
    try:
        given = msgspec.convert(dict(pairs), SendQuery, strict=False)
    except msgspec.ValidationError as fault:
        raise bad_query(str(fault)) from None
    if given.partition_id is not None:
        kind, value = PartitioningKind.PARTITION_ID, given.partition_id.to_bytes(4, "little")
    elif given.key is not None:
        kind, value = PartitioningKind.MESSAGES_KEY, given.key.encode()
    else:
        kind, value = PartitioningKind.BALANCED, b""
    return PartitioningInput(PARTITIONINGS.word(kind), value)


class MessageInput(msgspec.Struct):
    payload: Annotated[bytes, Meta(min_length=1)]
    id: int | str = 0
    user_headers: list[HeaderPair] | bytes | None = None


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
        messages = self.messages
        ids = _numbers([message.id for message in messages])
        partitioning = self.partitioning.partitioning()
        if not messages:
            raise InvalidMessagesCount("a send has at least one message")
        headers = [
            b"" if message.user_headers is None else sorted_headers_block(message.user_headers)
            for message in messages
        ]
        indexes, encoded = encode_fields(
            [message.payload for message in messages], ids, headers, now
        )
        return {
            "partitioning": partitioning,
            "messages_count": len(messages),
            "indexes": memoryview(indexes),
            "messages": memoryview(encoded),
        }

    @classmethod
    def of(cls, request: SendMessages) -> Self:
        """The messages without their origin timestamps, for which there is no field."""
        messages = decode_messages(request.messages)
        if not all(message.payload for message in messages):
            raise ValueError("a payload has at least one byte")
        return cls(
            PartitioningInput(
                PARTITIONINGS.word(request.partitioning.kind), request.partitioning.value
            ),
            [
                MessageInput(message.payload, message.id, headers_document(message.encoded_headers))
                for message in messages
            ],
        )


def _numbers(ids: list[int | str]) -> Sequence[int]:
    """Return the values of the ids. Most messages have none; then no loop is needed."""
    if ids.count(0) == len(ids):
        return bytes(len(ids))
    numbers = []
    for place, given in enumerate(ids):
        try:
            numbers.append(message_id(given))
        except ValueError as fault:
            raise bad_shape(f"{fault} - at `$.messages[{place}].id`") from None
    return numbers


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
        [message_document(message) for message in decode_messages(polled.messages)],
    )


def message_document(message: Message) -> MessageDocument:
    header = HeaderDocument(
        message.checksum,
        message.id,
        message.offset,
        message.timestamp,
        message.origin_timestamp,
        len(message.encoded_headers),
        len(message.payload),
    )
    return MessageDocument(header, message.payload, headers_document(message.encoded_headers))


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
