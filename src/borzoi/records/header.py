"""The header in front of every message, on the wire and on the disk alike.

::

    bytes    field                 little-endian
    0..8     checksum              u64, XXH3-64 of bytes 8..end of the message
    8..24    id                    u128
    24..32   offset                u64, place in the partition
    32..40   timestamp             u64, µs, when the server appended it
    40..48   origin_timestamp      u64, µs, when the client made it
    48..52   user_headers_length   u32
    52..56   payload_length        u32
    56..64   reserved              u64, zero
    64..     payload, then user headers
"""

import struct
from typing import Final, NamedTuple

import numpy as np

from borzoi.model.errors import MessageTooSmall
from borzoi.model.limits import HEADER_BYTES

HEADER: Final = struct.Struct("<Q16sQQQIIQ")
assert HEADER.size == HEADER_BYTES

CHECKSUM_AT: Final = 0
ID_AT: Final = 8
OFFSET_AT: Final = 24
TIMESTAMP_AT: Final = 32
ORIGIN_TIMESTAMP_AT: Final = 40
LENGTHS_AT: Final = 48
RESERVED_AT: Final = 56

#: The same table for numpy; packed, so an item of it may start at any byte.
HEADER_DTYPE: Final = np.dtype(
    [
        ("checksum", "<u8"),
        ("id", "V16"),
        ("offset", "<u8"),
        ("timestamp", "<u8"),
        ("origin_timestamp", "<u8"),
        ("user_headers_length", "<u4"),
        ("payload_length", "<u4"),
        ("reserved", "<u8"),
    ]
)
assert HEADER_DTYPE.itemsize == HEADER_BYTES


class MessageHeader(NamedTuple):
    checksum: int
    id: int
    offset: int
    timestamp: int
    origin_timestamp: int
    user_headers_length: int
    payload_length: int
    reserved: int = 0

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return HEADER_BYTES + self.payload_length + self.user_headers_length


def pack_header(header: MessageHeader) -> bytes:
    return HEADER.pack(header[0], header.id.to_bytes(16, "little"), *header[2:])


def unpack_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> MessageHeader:
    if len(buffer) - position < HEADER_BYTES:
        raise MessageTooSmall(f"{len(buffer) - position} bytes are too few for a message header")
    checksum, message_id, *rest = HEADER.unpack_from(buffer, position)
    return MessageHeader(checksum, int.from_bytes(message_id, "little"), *rest)
