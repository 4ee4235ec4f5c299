"""The frame of a send, in parts: a batch is copied once on its way to the socket.

::

    prefix, metadata          the frame's eight bytes, topic, partitioning, count
    indexes                   16 bytes a message
    messages                  64-byte header, payload, user headers; back to back

The parts go to the socket in one call. Payloads of one size without ids or headers all have the
same 64-byte header, so joining them *with* that header builds the batch; indexes and headers are
cached for the next batch of the same shape.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from borzoi.client.messages import NewMessage, Payload, encoded_headers
from borzoi.model.errors import (
    InvalidFormat,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidNumber,
    PayloadTooBig,
    UserHeadersTooBig,
)
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    U128_MAX,
    USER_HEADERS_BYTES_MAX,
)
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import Buffer, Writer
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.framing import CODE_BYTES, REQUEST_PREFIX
from borzoi.records.accelerator import native
from borzoi.records.columnar import HEADER_BLOCK, equal_indexes, header_block, request_indexes
from borzoi.records.header import HEADER
from borzoi.records.validation import INDEX_ENTRY

#: What can be sent: a payload, or a message with headers or an id.
Sendable: TypeAlias = Payload | NewMessage

Bytes: TypeAlias = bytes | bytearray | memoryview

NO_ID: Final = bytes(16)
_EMPTY: Final = memoryview(b"")


class EncodedMessages(NamedTuple):
    """Encoded messages, independent of topic and partition."""

    messages_count: int
    size: int
    #: The indexes, then the messages.
    parts: tuple[Buffer, ...]


def encode(
    messages: Sequence[Sendable],
    *,
    now: int,
    new_ids: Callable[[int], bytes] | None = None,
) -> EncodedMessages:
    """Indexes and messages; `new_ids(n)` gives n × 16 bytes for those that come without an id."""
    if not messages:
        raise InvalidMessagesCount("a send needs at least one message")
    if native is not None and new_ids is None:
        size = native.equal_size(messages)
        if size is not None:
            return _encode_alike(cast("Sequence[bytes]", messages), size, now)
    if set(map(type, messages)) == _BYTES:
        bodies = _Bodies(cast("Sequence[bytes]", messages), None, None)
    else:
        bodies = _taken_apart(messages)
    if new_ids is not None:
        bodies = bodies._replace(ids=_with_new_ids(bodies, new_ids))
    lengths = list(map(len, bodies.payloads))
    if bodies.headers is None and bodies.ids is None and len(set(lengths)) == 1:
        return _encode_alike(bodies.payloads, lengths[0], now)
    return (_encode_few if len(lengths) < _FEW else _encode_many)(bodies, lengths, now)


_BYTES: Final = {bytes}

#: Below this many messages `struct` is faster than numpy.
_FEW: Final = 8


class _Bodies(NamedTuple):
    """The parts of a batch's messages; None where no message has any."""

    payloads: Sequence[Bytes]
    headers: list[bytes] | None
    #: 16 bytes each, NO_ID for none.
    ids: list[bytes] | None


def _taken_apart(messages: Iterable[Sendable]) -> _Bodies:
    payloads: list[Bytes] = []
    headers: list[bytes] = []
    ids: list[bytes] = []
    for message in messages:
        if isinstance(message, NewMessage):
            payloads.append(payload_of(message.payload))
            headers.append(encoded_headers(message.headers))
            ids.append(checked_id(message.id).to_bytes(16, "little") if message.id else NO_ID)
        else:
            payloads.append(payload_of(message))
            headers.append(b"")
            ids.append(NO_ID)
    return _Bodies(
        payloads,
        headers if any(headers) else None,
        ids if any(each is not NO_ID for each in ids) else None,
    )


def _with_new_ids(bodies: _Bodies, new_ids: Callable[[int], bytes]) -> list[bytes]:
    count = len(bodies.payloads)
    fresh = new_ids(count)
    made = [fresh[at : at + 16] for at in range(0, 16 * count, 16)]
    if bodies.ids is None:
        return made
    return [new if given is NO_ID else given for given, new in zip(bodies.ids, made, strict=True)]


def _encode_alike(payloads: Sequence[Bytes], size: int, now: int) -> EncodedMessages:
    count = len(payloads)
    check_sizes(size, 0)
    whole = count * (HEADER_BYTES + size)
    _check_batch(whole)
    header = HEADER.pack(0, NO_ID, 0, 0, now, 0, size, 0)
    indexes = equal_indexes(HEADER_BYTES + size, count)
    return EncodedMessages(count, whole, (indexes, header, header.join(payloads)))


def _encode_few(bodies: _Bodies, lengths: list[int], now: int) -> EncodedMessages:
    parts: list[Bytes] = []
    indexes = b""
    end = 0
    for number, (payload, length) in enumerate(zip(bodies.payloads, lengths, strict=True)):
        headers = bodies.headers[number] if bodies.headers else b""
        message_id = bodies.ids[number] if bodies.ids else NO_ID
        check_sizes(length, len(headers))
        end += HEADER_BYTES + length + len(headers)
        header = HEADER.pack(0, message_id, 0, 0, now, len(headers), length, 0)
        parts += (header, payload, headers)
        indexes += INDEX_ENTRY.pack(0, end, 0)
    _check_batch(end)
    return EncodedMessages(len(lengths), end, (indexes, b"".join(parts)))


def _encode_many(bodies: _Bodies, lengths: list[int], now: int) -> EncodedMessages:
    count = len(lengths)
    payload_lengths = np.array(lengths, np.int64)
    header_lengths = np.zeros(count, np.int64)
    if bodies.headers is not None:
        header_lengths[:] = list(map(len, bodies.headers))
    ids = None if bodies.ids is None else np.frombuffer(b"".join(bodies.ids), "V16")
    block = header_block(payload_lengths, header_lengths, ids=ids)
    block["origin_timestamp"] = now
    ends = np.cumsum(payload_lengths + header_lengths + HEADER_BYTES)
    whole = int(ends[-1])
    _check_batch(whole)
    step = 2 if bodies.headers is None else 3
    parts: list[Bytes] = [b""] * (step * count)
    parts[::step] = block.view(HEADER_BLOCK).tolist()
    parts[1::step] = bodies.payloads
    if bodies.headers is not None:
        parts[2::step] = bodies.headers
    return EncodedMessages(count, whole, (request_indexes(ends), b"".join(parts)))


def send_parts(
    stream_id: Identifier,
    topic_id: Identifier,
    partitioning: Partitioning,
    encoded: EncodedMessages,
) -> list[Buffer]:
    """The whole frame."""
    head = Writer()
    SendMessages(
        stream_id, topic_id, partitioning, encoded.messages_count, _EMPTY, _EMPTY
    ).encode_metadata(head)
    metadata = head.getvalue()
    length = CODE_BYTES + len(metadata) + sum(map(len, encoded.parts))
    prefix = REQUEST_PREFIX.pack(length, SendMessages.CODE)
    return [prefix + metadata, *encoded.parts]


def payload_of(value: object) -> Bytes:
    """The bytes of a payload."""
    if isinstance(value, bytes | bytearray):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, memoryview):
        return value.cast("B") if value.itemsize != 1 or value.ndim != 1 else value
    raise InvalidFormat(
        f"a payload is bytes or text, not {type(value).__name__}; a producer with a serializer"
        " takes other values"
    )


def checked_id(message_id: int) -> int:
    """Return the id if it is valid, or raise `InvalidNumber`."""
    if not 0 <= message_id <= U128_MAX:
        raise InvalidNumber(f"the id {message_id} does not fit 128 bits")
    return message_id


def check_sizes(payload: int, headers: int) -> None:
    """Reject what every server would reject."""
    if payload > PAYLOAD_BYTES_MAX:
        raise PayloadTooBig(
            f"a payload of {payload} bytes; {PAYLOAD_BYTES_MAX} are allowed: send it in pieces"
        )
    if headers > USER_HEADERS_BYTES_MAX:
        raise UserHeadersTooBig(
            f"{headers} bytes of user headers; {USER_HEADERS_BYTES_MAX} are allowed"
        )


def _check_batch(size: int) -> None:
    if size > BATCH_BYTES_MAX:
        raise InvalidMessagesSize(
            f"{size} bytes of messages in one send; {BATCH_BYTES_MAX} are allowed: send fewer"
        )
