"""Envelopes between two shards, as bytes; sans-IO.

::

    bytes    field
    0..4     length       u32, of the body in this fragment
    4..12    number       u64, of the request, or of the request that it answers
    12       kind         u8, see `EnvelopeKind`
    13       subject      u8, see `Subject`
    14       descriptors  u8, how many of the descriptors that came with the bytes belong here
    15       flags        u8, 1: another fragment follows
    16..     body

A large body is cut into fragments, so that an urgent envelope waits for one fragment and not for
the whole body. The fragments of one envelope are in order, possibly interleaved with others; the
first one has the descriptors.
"""

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from borzoi.model.errors import BorzoiError, InvalidFormat
from borzoi.protocol.errors import code_of, error_of

HEAD: Final = struct.Struct("<IQBBBB")
assert HEAD.size == 16

MORE: Final = 1
#: The largest body of one fragment.
FRAGMENT_BYTES: Final = 64 * 1024
#: The largest body, over all fragments: a large metadata snapshot, or the largest batch.
BODY_BYTES_MAX: Final = 1 << 30
#: The kernel passes at most 253 at a time.
DESCRIPTORS_MAX: Final = 200

_FAILURE: Final = struct.Struct("<I")

Bytes: TypeAlias = bytes | memoryview


class EnvelopeKind(IntEnum):
    """The kind of an envelope."""

    REQUEST = 1
    REPLY = 2
    #: The reply of a failed request: a status and a message.
    FAILURE = 3
    #: Has no reply.
    NOTICE = 4
    #: Cancels a request.
    CANCEL = 5


class Subject(IntEnum):
    """The subject of an envelope."""

    OPERATION = 1
    DESCRIBE = 2
    TOTALS = 3
    OPENED = 4
    FILE = 5
    FILES_GONE = 6
    CLIENT = 7
    CLIENT_GONE = 8
    JOIN = 10
    JOINED = 11
    PROPOSAL = 12
    ENTRY = 13
    SESSIONS = 20
    USAGE = 21
    READY = 22
    DRAINED = 23
    METRICS = 24
    MIGRATION = 30


class Envelope(msgspec.Struct, frozen=True):
    kind: int
    subject: int
    number: int
    body: Bytes
    descriptors: Sequence[int] = ()


def encode_fragments(envelope: Envelope) -> Iterator[tuple[bytes, Bytes]]:
    """Return the head and the body of each fragment; at least one."""
    body, count = envelope.body, len(envelope.descriptors)
    size = len(body)
    if size > BODY_BYTES_MAX:
        raise InvalidFormat(f"a body of {size} bytes is too large to cross to another shard")
    assert count <= DESCRIPTORS_MAX, "more descriptors than the kernel passes at a time"
    kind, subject, number = envelope.kind, envelope.subject, envelope.number
    if size <= FRAGMENT_BYTES:
        yield HEAD.pack(size, number, kind, subject, count, 0), body
        return
    view = memoryview(body)
    for start in range(0, size, FRAGMENT_BYTES):
        part = view[start : start + FRAGMENT_BYTES]
        more = MORE if start + FRAGMENT_BYTES < size else 0
        yield HEAD.pack(len(part), number, kind, subject, count if start == 0 else 0, more), part


class Decoder:
    """Decodes the envelopes of one peer."""

    def __init__(self) -> None:
        self._rest = b""
        #: Received descriptors; they never arrive before the first byte of their envelope.
        self._descriptors: deque[int] = deque()
        #: Incomplete bodies, by kind and number.
        self._partial: dict[tuple[int, int], tuple[list[Bytes], list[int]]] = {}

    def feed(self, arrived: Bytes, descriptors: Sequence[int] = ()) -> list[Envelope]:
        """Return the envelopes that are complete now. `InvalidFormat` for invalid bytes."""
        if not (descriptors or self._rest or self._partial or len(arrived) < HEAD.size):
            # Mostly one small envelope arrives by itself.
            length, number, kind, subject, count, flags = HEAD.unpack_from(arrived)
            if length == len(arrived) - HEAD.size and not (count or flags):
                return [Envelope(kind, subject, number, bytes(arrived[HEAD.size :]))]
        return self._feed(self._rest + arrived, descriptors)

    def _feed(self, data: bytes, descriptors: Sequence[int]) -> list[Envelope]:
        self._descriptors += descriptors
        view, end, position = memoryview(data), len(data), 0
        found: list[Envelope] = []
        while end - position >= HEAD.size:
            length, number, kind, subject, count, flags = HEAD.unpack_from(data, position)
            if length > FRAGMENT_BYTES:
                raise InvalidFormat(f"a fragment of {length} bytes")
            start = position + HEAD.size
            if end - start < length:
                break
            position = start + length
            if count > len(self._descriptors):
                raise InvalidFormat(f"an envelope lacks {count - len(self._descriptors)} files")
            own = [self._descriptors.popleft() for _ in range(count)]
            body = view[start:position]
            if flags or (kind, number) in self._partial:
                whole = self._joined(kind, number, body, own, bool(flags & MORE))
                if whole is not None:
                    found.append(Envelope(kind, subject, number, *whole))
            else:
                found.append(Envelope(kind, subject, number, body, own))
        self._rest = data[position:]
        return found

    def _joined(
        self, kind: int, number: int, body: Bytes, descriptors: list[int], more: bool
    ) -> tuple[bytes, list[int]] | None:
        """Return the whole body once its last fragment has arrived."""
        parts, held = self._partial.setdefault((kind, number), ([], []))
        parts.append(body)
        held += descriptors
        if sum(map(len, parts)) > BODY_BYTES_MAX:
            raise InvalidFormat("a body has too many fragments")
        if more:
            return None
        del self._partial[kind, number]
        return b"".join(parts), held

    def unclaimed(self) -> list[int]:
        """Return descriptors of incomplete envelopes, to be closed when the peer is lost."""
        held = [one for _, descriptors in self._partial.values() for one in descriptors]
        left = [*self._descriptors, *held]
        self._descriptors.clear()
        self._partial.clear()
        return left


def encode_failure(error: BorzoiError) -> bytes:
    return _FAILURE.pack(code_of(error)) + error.message.encode()


def decode_failure(body: Bytes) -> BorzoiError:
    """Return the same error, or its nearest base class with a status."""
    (code,) = _FAILURE.unpack_from(body)
    return error_of(code, bytes(body[_FAILURE.size :]).decode(errors="replace"))
