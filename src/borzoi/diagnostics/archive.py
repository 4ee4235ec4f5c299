"""ZIP archives whose members are compressed in ways the standard library does not write.

::

    member            30-byte local header, name, compressed bytes
    directory entry   46-byte header, name
    end               22 bytes: counts, size and position of the directory

Sizes fit into u32: a snapshot is bounded far below that.
"""

import lzma
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final

from borzoi.model.topics import Compression
from borzoi.records.compression import compress

ZSTANDARD: Final = 93
XZ: Final = 95

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
assert (_LOCAL.size, _ENTRY.size, _END.size) == (30, 46, 22)

#: The version of the format that a reader needs for members of these methods.
VERSION_NEEDED: Final = 63
#: 1980-01-01, the earliest date of the format: snapshots have their time in their name.
FIRST_DAY: Final = 0x21

COMPRESSORS: Final[dict[int, Callable[[bytes], bytes]]] = {
    ZSTANDARD: lambda data: compress(Compression.ZSTD, data),
    XZ: lzma.compress,
}


def archive(members: Sequence[tuple[str, bytes]], method: int) -> bytes:
    """Return an archive of the members, in order, each compressed by the method."""
    out, directory = bytearray(), bytearray()
    for name, data in members:
        packed, encoded = COMPRESSORS[method](data), name.encode()
        position = len(out)
        facts = (0, FIRST_DAY, zlib.crc32(data), len(packed), len(data), len(encoded), 0)
        out += _LOCAL.pack(b"PK\3\4", VERSION_NEEDED, 0, method, *facts) + encoded + packed
        directory += _ENTRY.pack(
            b"PK\1\2", VERSION_NEEDED, VERSION_NEEDED, 0, method, *facts, 0, 0, 0, 0, position
        )
        directory += encoded
    count = len(members)
    end = _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + end)
