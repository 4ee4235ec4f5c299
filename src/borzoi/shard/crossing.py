"""The byte layout of operations and answers between shards.

::

    operation   namespace u64, now i64 (µs since the epoch), code u8, fields
    code 1      a batch: place u8, size of each message u32 (0 if they differ or are few), then
                  place 0   its bytes
                  place 1   position u64, length u32 in the arena of the requesting shard, and
                            the client u64 that may be answered, or 0 (`shard/answering.py`)
    other       MessagePack, see `partitions/operation_codec.py`

    code 2      a poll: how many of the next ones are welcome u8, then MessagePack
    polled      length u32 of the MessagePack, MessagePack of `_Polled`, bytes of the tail

A batch in an arena is lent: its shard keeps the buffer until the answer arrives, and the owner of
the partition stamps it in place and writes it from there.

Polled messages are sent as ranges of files, also if they are compressed or encrypted: the shard
that has the connection inflates and decrypts them, a slice at a time, as for its own partitions.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from borzoi.memory.pool import NOWHERE
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace, pack, unpack
from borzoi.partitions.decrypting import ClearSlices
from borzoi.partitions.operation_codec import CODES, decode_operation, encode_operation
from borzoi.partitions.operations import PartitionOperation, Poll
from borzoi.partitions.polling import Polled
from borzoi.records.batch import Batch, equal_batch, walk
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
INLINE_BATCH: Final = struct.Struct("<QqBBI")
LENT_BATCH: Final = struct.Struct("<QqBBIQIQ")
_LENGTH: Final = struct.Struct("<I")
NO_MARK: Final = memoryview(b"")
#: Where the code of an operation is.
CODE_AT: Final = HEAD.size - 1

#: Returns the view of (position, length) in the arena of a shard.
Lent = Callable[[int, int, int], memoryview]

#: A few partitions are asked for again and again.
_packed: Final = lru_cache(4096)(pack)
_unpacked: Final = lru_cache(4096)(unpack)


class CrossedOperation(msgspec.Struct, frozen=True):
    """An operation received from another shard, other than an append."""

    namespace: Namespace
    now: int
    operation: PartitionOperation[Any]
    #: How many of the next polls the answer to a poll may include.
    welcome: int = 0


def encode_request(
    namespace: Namespace, operation: PartitionOperation[Any], now: int, welcome: int = 0
) -> tuple[int, bytes]:
    """Encode an operation other than an append; return its code and bytes."""
    code, fields = encode_operation(operation)
    if code == POLL:
        return code, POLL_HEAD.pack(_packed(namespace), now, code, welcome) + fields
    return code, HEAD.pack(_packed(namespace), now, code) + fields


def decode_request(body: Bytes) -> CrossedOperation:
    """Decode an operation other than an append."""
    packed, now, code = HEAD.unpack_from(body)
    namespace = _unpacked(packed)
    if code == POLL:
        operation = decode_operation(code, memoryview(body)[POLL_HEAD.size :])
        return CrossedOperation(namespace, now, operation, body[HEAD.size])
    operation = decode_operation(code, memoryview(body)[HEAD.size :])
    return CrossedOperation(namespace, now, operation)


class CrossedAppend(msgspec.Struct, frozen=True):
    """A batch received from another shard."""

    namespace: Namespace
    now: int
    batch: Batch
    #: The client that may be answered, and the byte in front of its batch; 0 for none.
    client: int = 0
    mark: memoryview = NO_MARK


def encode_append(
    namespace: Namespace, batch: Batch, now: int, position: int, client: int = 0
) -> bytes:
    """Encode a batch to append, as its place in the arena if it has one. The owner may answer the
    client with this number."""
    size = batch.size if batch.count == 1 else batch.equal_size
    if position == NOWHERE:
        return INLINE_BATCH.pack(_packed(namespace), now, APPEND, INLINE, size) + batch.messages
    return LENT_BATCH.pack(
        _packed(namespace), now, APPEND, LENT, size, position, batch.size, client
    )


def decode_append(body: Bytes, peer: int, lent: Lent) -> CrossedAppend:
    """Decode an append of a peer. `lent` finds a batch that was not copied."""
    client, mark = 0, NO_MARK
    if body[HEAD.size] == LENT:
        packed, now, _, _, size, position, length, client = LENT_BATCH.unpack_from(body)
        if client:
            mark = lent(peer, position - 1, length + 1)
            messages = mark[1:]
        else:
            messages = lent(peer, position, length)
    else:
        packed, now, _, _, size = INLINE_BATCH.unpack_from(body)
        # A copy: received bytes are read-only, and a batch is stamped in place.
        messages = memoryview(bytearray(memoryview(body)[INLINE_BATCH.size :]))
    # The receiving shard has validated the batch. To walk through its headers is to wait for
    # memory that another processor wrote, a message at a time.
    if not size:
        batch = walk(messages)
    else:
        is_one = size == len(messages)
        batch = Batch(messages, [size]) if is_one else equal_batch(messages, size)
    return CrossedAppend(_unpacked(packed), now, batch, client, mark)


#: The number of a file, a position and a length; these bytes are sent as they are.
_Range: TypeAlias = tuple[int, int, int]


class _Tail(msgspec.Struct, frozen=True, array_like=True):
    """One piece after the ranges: bytes that follow, or a part of a file to be decoded."""

    length: int
    #: The file that has it, compressed or plain; 0 if its bytes follow.
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
    #: The size of the messages after decryption; 0 if they are not encrypted.
    clear_bytes: int = 0
    #: The numbers of large messages that no key opens, among those that are decrypted.
    unreadable: list[int] = []
    #: Where each of the next polls ends in the file of this one.
    ahead: list[int] = []


class Stretch(msgspec.Struct, frozen=True):
    """Consecutive messages in one file of a peer, for several polls of `count` messages each."""

    first_offset: int
    count: int
    #: The number of the file.
    number: int
    #: Where the first poll begins, and where each of them ends.
    bounds: list[int]
    #: Of the last message that the partition had.
    current_offset: int


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Polled)

NumberOf: TypeAlias = Callable[[ReadOnlyFile], int]


def encode_polled(polled: Polled, number_of: NumberOf, ahead: Sequence[int] = ()) -> bytes:
    """Encode the answer to a poll; `number_of` announces a file to the peer if necessary. `ahead`
    says where the next polls end in the file of this one."""
    reading, clear_bytes, unreadable = polled.reading, 0, list[int]()
    left_out, count = reading.left_out, reading.count
    if len(reading.tail) == 1 and isinstance(clear := reading.tail[0], ClearSlices):
        # Every shard has the key, so the receiver decrypts the stored bytes as it sends them.
        reading, clear_bytes = clear.stored, clear.length
        unreadable = sorted(clear.unreadable)
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
            unreadable,
            list(ahead),
        )
    )
    return b"".join((_LENGTH.pack(len(head)), head, *bodies))


def _encode_ranges(reading: Reading, number_of: NumberOf) -> list[_Range]:
    return [(number_of(part.file), part.position, part.length) for part in reading.ranges]


def _encode_tail(
    pieces: Sequence[memoryview | Produced], number_of: NumberOf
) -> tuple[list[_Tail], list[Bytes]]:
    """Encode the pieces after the ranges; return them and the bytes that follow."""
    tail: list[_Tail] = []
    bodies: list[Bytes] = []
    for piece in pieces:
        if isinstance(piece, PartSlices) and isinstance(piece.body, CompressedBody):
            number = number_of(piece.body.file)
            tail.append(_Tail(piece.length, number, piece.position, is_compressed=True))
        elif isinstance(piece, FileSlices):
            part = piece.range
            tail.append(_Tail(part.length, number_of(part.file), part.position))
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
) -> tuple[Polled, Stretch | None]:
    """Decode the answer to a poll, and where it and the next ones are, if the owner said so."""
    view = memoryview(body)
    (length,) = _LENGTH.unpack_from(view)
    start = _LENGTH.size + length
    try:
        head = _DECODER.decode(view[_LENGTH.size : start])
    except msgspec.MsgspecError as error:
        raise InvalidFormat(f"the answer to a poll cannot be read: {error}") from error
    ranges = _file_ranges(head.ranges, files)
    tail = _decode_tail(head.tail, files, view[start:]) if head.tail else []
    if head.clear_bytes:
        if cipher is None:
            raise InvalidFormat("encrypted messages came to a shard that has no key")
        stored = Reading(head.first_offset, head.count + head.left_out, ranges, tail)
        clear = ClearSlices(stored, cipher, head.clear_bytes, frozenset(head.unreadable))
        ranges, tail = [], [clear]
    reading = Reading(head.first_offset, head.count, ranges, tail, head.left_out)
    return Polled(reading, head.current_offset), _stretch(head) if head.ahead else None


def _stretch(head: _Polled) -> Stretch:
    ((number, position, length),) = head.ranges
    bounds = [position, position + length, *head.ahead]
    return Stretch(head.first_offset, head.count, number, bounds, head.current_offset)


def _file_ranges(places: Sequence[_Range], files: CrossedFiles) -> list[FileRange]:
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
