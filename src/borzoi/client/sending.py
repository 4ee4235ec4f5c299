"""The frame of a send, in parts: a batch is copied once on its way to the socket.

::

    prefix, metadata          the frame's eight bytes, topic, partitioning, count
    indexes                   16 bytes a message
    messages                  64-byte header, payload, user headers; back to back

The parts go to the socket in one call. Payloads of one size without ids or headers all have the
same 64 bytes in front, so joining them *with* those bytes makes the whole batch; indexes and
headers that came once are kept for the next batch like it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

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
from borzoi.records.header import HEADER
from borzoi.records.validation import INDEX_DTYPE, INDEX_ENTRY

#: What can be sent: a payload, or a message with headers or an id.
Sendable: TypeAlias = Payload | NewMessage

NO_ID: Final = bytes(16)
_EMPTY: Final = memoryview(b"")

#: Index entries of batches up to this many messages are kept, 64 kinds of them.
_KEPT_MESSAGES_MAX: Final = 4096

_pack_header = HEADER.pack


class Encoded(NamedTuple):
    """Messages ready to be sent, wherever they go."""

    messages_count: int
    size: int
    #: The indexes, then the messages.
    parts: tuple[Buffer, ...]


def encode(
    messages: Sequence[Sendable],
    *,
    now: int,
    new_ids: Callable[[int], bytes] | None = None,
) -> Encoded:
    """Indexes and messages; `new_ids(n)` gives n × 16 bytes for those that come without an id."""
    count = len(messages)
    if not count:
        raise InvalidMessagesCount("a send needs at least one message")
    if new_ids is None and set(map(type, messages)) == _BYTES:
        sizes = set(map(len, messages))  # type: ignore[arg-type]
        if len(sizes) == 1:
            return _encode_alike(messages, sizes.pop(), now)  # type: ignore[arg-type]
    return _encode_each(messages, now, new_ids)


_BYTES: Final = {bytes}


def _encode_alike(payloads: Sequence[bytes], size: int, now: int) -> Encoded:
    count = len(payloads)
    _check(size, 0)
    header = _pack_header(0, NO_ID, 0, 0, now, 0, size, 0)
    whole = count * (HEADER_BYTES + size)
    _check_batch(whole)
    indexes = _kept_indexes(HEADER_BYTES + size, count)
    return Encoded(count, whole, (indexes, header, header.join(payloads)))


def _encode_each(
    messages: Iterable[Sendable], now: int, new_ids: Callable[[int], bytes] | None
) -> Encoded:
    parts: list[Buffer] = []
    ends: list[int] = []
    end = 0
    for message in messages:
        headers, message_id = b"", NO_ID
        if isinstance(message, NewMessage):
            payload = _payload(message.payload)
            headers = encoded_headers(message.headers)
            if message.id:
                message_id = _id_bytes(message.id)
        else:
            payload = _payload(message)
        if new_ids is not None and message_id is NO_ID:
            message_id = new_ids(1)
        size = len(payload)
        _check(size, len(headers))
        parts.append(_pack_header(0, message_id, 0, 0, now, len(headers), size, 0))
        parts.append(payload)
        end += HEADER_BYTES + size
        if headers:
            parts.append(headers)
            end += len(headers)
        ends.append(end)
    _check_batch(end)
    return Encoded(len(ends), end, (_indexes(ends), b"".join(parts)))


def send_parts(
    stream_id: Identifier, topic_id: Identifier, partitioning: Partitioning, encoded: Encoded
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


def _payload(value: object) -> bytes | bytearray | memoryview:
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


def _id_bytes(message_id: int) -> bytes:
    if not 0 <= message_id <= U128_MAX:
        raise InvalidNumber(f"the id {message_id} does not fit 128 bits")
    return message_id.to_bytes(16, "little")


def _check(payload: int, headers: int) -> None:
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


def _indexes(ends: list[int]) -> bytes:
    if len(ends) < 8:
        return b"".join([INDEX_ENTRY.pack(0, end, 0) for end in ends])
    entries = np.zeros(len(ends), INDEX_DTYPE)
    entries["position"] = ends
    return entries.tobytes()


def _equal_indexes(size: int, count: int) -> bytes:
    return _indexes(list(accumulate([size] * count)))


_keep_indexes = lru_cache(maxsize=64)(_equal_indexes)


def _kept_indexes(size: int, count: int) -> bytes:
    return (_keep_indexes if count <= _KEPT_MESSAGES_MAX else _equal_indexes)(size, count)
