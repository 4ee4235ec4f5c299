"""The byte layout of operations and answers between shards.

::

    operation   namespace u64, now i64 (µs since the epoch), code u8, fields
    code 1      a batch: place u8, then
                  place 0   its bytes
                  place 1   position u64, length u32 in the arena of the requesting shard
    other       MessagePack, see `partitions/operation_codec.py`

    code 2      a poll: how many further readings are welcome u8, then MessagePack
    polled      length u32 of the MessagePack, MessagePack of `_Polled`, bytes of the tail

A batch that lies in an arena is lent: its shard keeps the buffer until the answer is there, and the
owner of the partition stamps and writes it where it lies.

Polled messages cross as places in files, also those that are compressed or encrypted: the shard
that sends them makes the bytes, a slice at a time, as it does for partitions of its own.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from borzoi.memory.pool import NOWHERE, Arena
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace, pack, unpack
from borzoi.partitions.decrypting import ClearSlices
from borzoi.partitions.operation_codec import CODES, decode_operation, encode_operation
from borzoi.partitions.operations import Append, PartitionOperation, Poll
from borzoi.partitions.polling import Polled
from borzoi.records.batch import walk
from borzoi.security.encryption import Cipher
from borzoi.shard.envelopes import Bytes
from borzoi.storage.compressed import CompressedBody
from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.reading import FileRange, FileSlices, Produced, Reading
from borzoi.storage.segment import PartSlices

APPEND: Final = 1
POLL: Final = CODES[Poll][0]
INLINE: Final = 0
LENT: Final = 1

HEAD: Final = struct.Struct("<QqB")
POLL_HEAD: Final = struct.Struct("<QqBB")
LENT_BATCH: Final = struct.Struct("<QqBBQI")
INLINE_BATCH: Final = struct.Struct("<QqBB")
_LENGTH: Final = struct.Struct("<I")

#: Returns the view of (position, length) in the arena of the requesting shard.
Lent = Callable[[int, int], memoryview]


class CrossedOperation(msgspec.Struct, frozen=True):
    """An operation received from another shard."""

    namespace: Namespace
    now: int
    code: int
    operation: PartitionOperation[Any]
    #: How many readings behind that of a poll are welcome.
    further: int = 0


def encode_request(
    namespace: Namespace, operation: PartitionOperation[Any], now: int, further: int = 0
) -> tuple[int, bytes]:
    """The code of an operation that is no append, and the bytes that cross."""
    code, fields = encode_operation(operation)
    if code == POLL:
        return code, POLL_HEAD.pack(pack(namespace), now, code, further) + fields
    return code, HEAD.pack(pack(namespace), now, code) + fields


def encode_append(
    namespace: Namespace, messages: memoryview, now: int, arena: Arena | None
) -> bytes:
    """A batch to append, as its place in the arena where it has one."""
    position = NOWHERE if arena is None else arena.position_of(messages)
    if position == NOWHERE:
        return INLINE_BATCH.pack(pack(namespace), now, APPEND, INLINE) + messages
    return LENT_BATCH.pack(pack(namespace), now, APPEND, LENT, position, len(messages))


def decode_request(body: Bytes, lent: Lent) -> CrossedOperation:
    """Decode an operation; `lent` finds a batch that was not copied."""
    packed, now, code = HEAD.unpack_from(body)
    namespace = unpack(packed)
    if code == POLL:
        operation = decode_operation(code, memoryview(body)[POLL_HEAD.size :])
        return CrossedOperation(namespace, now, code, operation, body[HEAD.size])
    if code != APPEND:
        operation = decode_operation(code, memoryview(body)[HEAD.size :])
        return CrossedOperation(namespace, now, code, operation)
    if body[HEAD.size] == LENT:
        _, _, _, _, position, length = LENT_BATCH.unpack_from(body)
        messages = lent(position, length)
    else:
        # A copy: received bytes are read-only, and a batch is stamped in place.
        messages = memoryview(bytearray(memoryview(body)[INLINE_BATCH.size :]))
    # The receiving shard has validated the batch; its headers say where messages end.
    return CrossedOperation(namespace, now, code, Append(walk(messages)))


#: A file by its number, a position and a length; what lies there is sent as it is.
_Range: TypeAlias = tuple[int, int, int]


class _Tail(msgspec.Struct, frozen=True, array_like=True):
    """One piece behind the ranges: bytes that follow, or what the receiver makes of a file."""

    length: int
    #: Of a file that holds it compressed, or as it is; 0 when its bytes follow.
    number: int = 0
    position: int = 0
    is_compressed: bool = False


class _Polled(msgspec.Struct, frozen=True, array_like=True):
    current_offset: int
    first_offset: int
    count: int
    left_out: int
    ranges: list[_Range]
    tail: list[_Tail]
    #: Bytes of the messages once they are decrypted, when those of the pieces are encrypted.
    clear_bytes: int = 0
    #: What lies behind, for polls that go on from there: counts, and ranges of one piece each.
    further: list[tuple[int, list[_Range]]] = []


class Further(msgspec.Struct, frozen=True):
    """What a poll that goes on from another one would find."""

    count: int
    ranges: list[_Range]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Polled)

NumberOf: TypeAlias = Callable[[ReadOnlyFile], int]


def encode_polled(polled: Polled, number_of: NumberOf, further: Sequence[Reading] = ()) -> bytes:
    """`number_of` announces a file to the peer if it does not have it."""
    reading, clear_bytes = polled.reading, 0
    left_out, count = reading.left_out, reading.count
    if len(reading.tail) == 1 and isinstance(clear := reading.tail[0], ClearSlices):
        # Every shard has the key, so what is stored crosses, and is decrypted while it is sent.
        reading, clear_bytes = clear.stored, clear.length
    tail, bodies = _encode_tail(reading.tail, number_of)
    head = _ENCODER.encode(
        _Polled(
            polled.current_offset,
            reading.first_offset,
            count,
            left_out,
            _encode_ranges(reading, number_of),
            tail,
            clear_bytes,
            [(one.count, _encode_ranges(one, number_of)) for one in further],
        )
    )
    return b"".join((_LENGTH.pack(len(head)), head, *bodies))


def _encode_ranges(reading: Reading, number_of: NumberOf) -> list[_Range]:
    return [(number_of(file), position, length) for file, position, length in reading.ranges]


def _encode_tail(
    pieces: Sequence[memoryview | Produced], number_of: NumberOf
) -> tuple[list[_Tail], list[Bytes]]:
    """The pieces behind the ranges, and the bytes that go along."""
    tail: list[_Tail] = []
    bodies: list[Bytes] = []
    for piece in pieces:
        if isinstance(piece, PartSlices) and isinstance(piece.body, CompressedBody):
            number = number_of(piece.body.file)
            tail.append(_Tail(piece.length, number, piece.position, is_compressed=True))
        elif isinstance(piece, FileSlices):
            file, position, length = piece.range
            tail.append(_Tail(length, number_of(file), position))
        else:
            body = b"".join(piece.slices()) if isinstance(piece, Produced) else piece
            tail.append(_Tail(len(body)))
            bodies.append(body)
    return tail, bodies


class CrossedFiles(Protocol):
    """The files that a peer has announced."""

    def get(self, number: int) -> ReadOnlyFile: ...

    def twin(self, number: int) -> CompressedBody:
        """The messages in a compressed file."""
        ...


def decode_polled(
    body: Bytes, files: CrossedFiles, cipher: Cipher | None
) -> tuple[Polled, list[Further]]:
    """The answer, and what the owner says of the messages behind it."""
    view = memoryview(body)
    (length,) = _LENGTH.unpack_from(view)
    start = _LENGTH.size + length
    try:
        head = _DECODER.decode(view[_LENGTH.size : start])
    except msgspec.MsgspecError as error:
        raise InvalidFormat(f"the answer to a poll cannot be read: {error}") from error
    ranges = file_ranges(head.ranges, files)
    tail = _decode_tail(head.tail, files, view[start:]) if head.tail else []
    if head.clear_bytes:
        if cipher is None:
            raise InvalidFormat("encrypted messages came to a shard that has no key")
        stored = Reading(head.first_offset, head.count + head.left_out, ranges, tail)
        ranges, tail = [], [ClearSlices(stored, cipher, head.clear_bytes)]
    reading = Reading(head.first_offset, head.count, ranges, tail, head.left_out)
    further = [Further(count, places) for count, places in head.further]
    return Polled(reading, head.current_offset), further


def file_ranges(places: Sequence[_Range], files: CrossedFiles) -> list[FileRange]:
    return [FileRange(files.get(number), position, size) for number, position, size in places]


def _decode_tail(
    pieces: Sequence[_Tail], files: CrossedFiles, bodies: memoryview
) -> list[memoryview | Produced]:
    tail: list[memoryview | Produced] = []
    start = 0
    for piece in pieces:
        if piece.is_compressed:
            tail.append(PartSlices(files.twin(piece.number), piece.position, piece.length))
        elif piece.number:
            part = FileRange(files.get(piece.number), piece.position, piece.length)
            tail.append(FileSlices(part))
        else:
            tail.append(bodies[start : start + piece.length])
            start += piece.length
    return tail
