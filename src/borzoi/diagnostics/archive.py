"""ZIP archives, also with members compressed in ways the standard library does not write.

::

    member            30-byte local header, name, compressed bytes
    directory entry   46-byte header, name
    end               22 bytes: counts, size and position of the directory

Sizes fit into u32: a snapshot is bounded far below that.
"""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from borzoi.model.system import SnapshotCompression
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


METHODS: Final[Mapping[SnapshotCompression, int]] = {
    SnapshotCompression.STORED: zipfile.ZIP_STORED,
    SnapshotCompression.DEFLATED: zipfile.ZIP_DEFLATED,
    SnapshotCompression.BZIP2: zipfile.ZIP_BZIP2,
    SnapshotCompression.ZSTD: ZSTANDARD,
    SnapshotCompression.LZMA: zipfile.ZIP_LZMA,
    SnapshotCompression.XZ: XZ,
}


def snapshot_archive(
    members: Sequence[tuple[str, bytes]], compression: SnapshotCompression
) -> bytes:
    """Return an archive of the members, in order, each compressed this way."""
    method = METHODS[compression]
    if method in COMPRESSORS:
        return archive(members, method)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as standard:
        for name, content in members:
            standard.writestr(name, content)
    return buffer.getvalue()


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
