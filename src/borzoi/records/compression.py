"""Compression of sealed segments: one small interface to three libraries, and frames on top.

A compressed segment is a row of independent frames, each of FRAME_BYTES of the plain segment, so
that a read inflates only the frames it needs; then a table that says where they are::

    bytes      part                  written as
    …          frames                gzip members, lz4 frames or zstd frames, one after another
    …          table                 per frame 12 bytes, up to 4096 of them in one wrapper
    40         trailer               in a wrapper of its own, at the very end

    table entry                      trailer
    0..4   length     u32            0..8    magic         "borzoi-1"
    4..12  checksum   u64, XXH3      8..12   algorithm     u32, Compression
           of the compressed frame   12..16  frame bytes   u32, plain size of all but the last
                                     16..24  plain bytes   u64, size of the plain segment
                                     24..32  frames        u64
                                     32..40  checksum      u64, XXH3 of the table and bytes 0..32

    wrapper, lz4 and zstd            wrapper, gzip
    0..4   0x184D2A5B                0..10   header of an empty member with an extra field
    4..8   length     u32            10..12  length + 4    u16
    8..    content                   12..14  "BZ"
                                     14..16  length        u16
                                     16..    content, then the end of the empty member: 10 bytes

The wrappers are what each format skips, so `zcat`, `lz4cat` and `zstdcat` print the plain segment.
A file that was cut, at whatever byte, has no trailer where it ends, or one that does not add up.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import FeatureUnavailable, InvalidChecksum, StorageFailure
from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.records.checksum import checksum

Buffer = bytes | bytearray | memoryview

#: Smaller frames compress worse, larger ones make a read of a few messages inflate more.
FRAME_BYTES: Final = 256 * 1024
#: What a table may ask a reader to inflate at once.
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024

GZIP_WINDOW: Final = 31  # zlib's number for 32 KiB of history inside a gzip wrapper

# Levels: sealing competes with the server for the processor, so speed comes first. On 256 KiB of
# JSON: isal 2 324 MB/s (zlib 6 28 MB/s), zstd 1 337 MB/s (3: 171 MB/s), lz4 706 MB/s.
ISAL_LEVEL: Final = 2
ZLIB_LEVEL: Final = 1
ZSTD_LEVEL: Final = 1


# One interface to the libraries. -----------------------------------------------------------------


class Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class CompressionLibrary(NamedTuple):
    compress: Callable[[Buffer], bytes]
    decompressor: Callable[[], Decompressor]
    #: What the library raises about bytes it did not write.
    faults: tuple[type[Exception], ...]


def compress(algorithm: Compression, data: Buffer) -> bytes:
    """The data as one independent frame."""
    return codec(algorithm).compress(data) if algorithm is not Compression.NONE else bytes(data)


def decompress(algorithm: Compression, data: Buffer, size: int) -> bytes:
    """The `size` bytes in one frame; StorageFailure when it holds anything else.

    Never inflates more than one byte beyond `size`, whatever the frame claims.
    """
    if algorithm is Compression.NONE:
        plain, is_whole = bytes(data), True
    else:
        chosen = codec(algorithm)
        decompressor = chosen.decompressor()
        try:
            plain = decompressor.decompress(data, size + 1)
        except chosen.faults as error:
            raise StorageFailure(f"a {algorithm.name} frame is damaged: {error}") from error
        is_whole = decompressor.eof and not decompressor.unused_data
    if len(plain) != size or not is_whole:
        raise StorageFailure(f"a {algorithm.name} frame does not hold {size} bytes")
    return plain


@cache
def codec(algorithm: Compression) -> CompressionLibrary:
    """The library behind an algorithm; FeatureUnavailable when it is not installed."""
    try:
        return CODECS[algorithm]()
    except ImportError as error:
        raise FeatureUnavailable(
            f"{algorithm.name.lower()} needs a library: pip install 'borzoi[compression]'"
        ) from error


def _gzip() -> CompressionLibrary:
    try:
        from isal import igzip_lib, isal_zlib
    except ImportError:
        return CompressionLibrary(
            lambda data: zlib.compress(data, ZLIB_LEVEL, GZIP_WINDOW),
            lambda: zlib.decompressobj(GZIP_WINDOW),
            (zlib.error,),
        )
    damage: Any = igzip_lib.IsalError  # its stub calls the class an instance
    return CompressionLibrary(
        lambda data: isal_zlib.compress(data, ISAL_LEVEL, GZIP_WINDOW),
        lambda: isal_zlib.decompressobj(GZIP_WINDOW),
        (damage,),
    )


def _lz4() -> CompressionLibrary:
    from lz4 import frame

    return CompressionLibrary(frame.compress, frame.LZ4FrameDecompressor, (RuntimeError,))


def _zstd() -> CompressionLibrary:
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return CompressionLibrary(
        lambda data: zstd.compress(data, ZSTD_LEVEL), zstd.ZstdDecompressor, (zstd.ZstdError,)
    )


CODECS: Final[Mapping[Compression, Callable[[], CompressionLibrary]]] = {
    Compression.GZIP: _gzip,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}


# Wrappers: bytes that the tools of a format skip. ------------------------------------------------

SKIPPABLE: Final = struct.Struct("<II")
SKIPPABLE_MAGIC: Final = 0x184D2A5B
GZIP_EXTRA: Final = struct.Struct("<10sH2sH")
GZIP_EMPTY: Final = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
#: An empty last block, then the CRC and the size of nothing.
GZIP_EMPTY_END: Final = b"\x03\0" + bytes(8)


def _wrapped(algorithm: Compression, content: bytes) -> bytes:
    if algorithm is Compression.GZIP:
        extra = GZIP_EXTRA.pack(GZIP_EMPTY, len(content) + 4, b"BZ", len(content))
        return extra + content + GZIP_EMPTY_END
    return SKIPPABLE.pack(SKIPPABLE_MAGIC, len(content)) + content


def _around(algorithm: Compression) -> tuple[int, int]:
    """Bytes of a wrapper before and after its content."""
    if algorithm is Compression.GZIP:
        return GZIP_EXTRA.size, len(GZIP_EMPTY_END)
    return SKIPPABLE.size, 0


def _unwrapped(algorithm: Compression, wrapped: bytes) -> bytes:
    before, after = _around(algorithm)
    content = wrapped[before : len(wrapped) - after]
    if _wrapped(algorithm, content) != wrapped:
        raise StorageFailure("a compressed segment does not end with its frame table")
    return content


# Frames. -----------------------------------------------------------------------------------------

TABLE_DTYPE: Final = np.dtype([("length", "<u4"), ("checksum", "<u8")])
#: So that the content of a wrapper fits the 16-bit length that gzip gives it.
ENTRIES_PER_WRAPPER: Final = 4096

TRAILER: Final = struct.Struct("<8sIIQQQ")
TRAILER_CHECKED_BYTES: Final = TRAILER.size - 8
MAGIC: Final = b"borzoi-1"

#: Gives `length` bytes of the compressed file from `position`.
ReadAt = Callable[[int, int], Buffer]


def cut(plain: Buffer, frame_bytes: int = FRAME_BYTES) -> Iterator[memoryview]:
    """Bytes at hand in the pieces that `compress_frames` takes."""
    view = memoryview(plain)
    for start in range(0, len(view), frame_bytes):
        yield view[start : start + frame_bytes]


def compress_frames(
    algorithm: Compression, pieces: Iterable[Buffer], frame_bytes: int = FRAME_BYTES
) -> Iterator[bytes]:
    """A compressed segment, piece by piece: the frames in order, then table and trailer.

    Each piece becomes a frame; all have `frame_bytes`, only the last may have fewer. A segment can
    be larger than memory, so nothing here holds more than one of them.
    """
    assert algorithm is not Compression.NONE
    assert 0 < frame_bytes <= FRAME_BYTES_MAX
    entries = []
    plain_bytes = 0
    for piece in pieces:
        assert plain_bytes % frame_bytes == 0, "only the last piece may be short"
        plain_bytes += len(piece)
        frame = compress(algorithm, piece)
        entries.append((len(frame), checksum(frame)))
        yield frame
    table = np.array(entries, TABLE_DTYPE)
    for first in range(0, len(table), ENTRIES_PER_WRAPPER):
        yield _wrapped(algorithm, table[first : first + ENTRIES_PER_WRAPPER].tobytes())
    trailer = TRAILER.pack(MAGIC, algorithm, frame_bytes, plain_bytes, len(table), 0)
    checked = trailer[:TRAILER_CHECKED_BYTES]
    sealed = checksum(table.tobytes() + checked)
    yield _wrapped(algorithm, checked + sealed.to_bytes(8, "little"))


class Frames(Value, eq=False):
    """The frame table of a compressed segment: which bytes of the file hold which plain bytes."""

    algorithm: Compression
    frame_bytes: int
    plain_bytes: int
    #: Where each frame ends in the compressed file; the first begins at 0.
    ends: NDArray[np.int64]
    checksums: NDArray[np.uint64]

    @classmethod
    def open(cls, algorithm: Compression, read: ReadAt, size: int) -> Self:
        """Read the table at the end of a compressed file of `size` bytes."""
        trailer, trailer_at = _last_wrapper(algorithm, read, size, TRAILER.size)
        magic, code, frame_bytes, plain_bytes, count, sealed = TRAILER.unpack(trailer)
        if magic != MAGIC or code != algorithm or not 0 < frame_bytes <= FRAME_BYTES_MAX:
            raise StorageFailure(f"this is not a segment compressed with {algorithm.name}")
        if count != -(-plain_bytes // frame_bytes) or count * TABLE_DTYPE.itemsize > size:
            raise StorageFailure("the frame table of a compressed segment does not add up")
        parts: list[bytes] = []
        table_at = trailer_at
        for first in reversed(range(0, count, ENTRIES_PER_WRAPPER)):
            entries = min(count - first, ENTRIES_PER_WRAPPER)
            part, table_at = _last_wrapper(
                algorithm, read, table_at, entries * TABLE_DTYPE.itemsize
            )
            parts.insert(0, part)
        table = b"".join(parts)
        if checksum(table + trailer[:TRAILER_CHECKED_BYTES]) != sealed:
            raise InvalidChecksum("the frame table of a compressed segment is damaged")
        columns = np.frombuffer(table, TABLE_DTYPE)
        ends = np.cumsum(columns["length"], dtype=np.int64)
        if (int(ends[-1]) if count else 0) != table_at:
            raise StorageFailure("the frames of a compressed segment are not all there")
        return cls(algorithm, frame_bytes, plain_bytes, ends, columns["checksum"])

    def __len__(self) -> int:
        return len(self.ends)

    def covering(self, start: int, end: int) -> range:
        """The frames that hold bytes [start, end) of the plain segment."""
        end = min(end, self.plain_bytes)
        if start >= end:
            return range(0)
        return range(start // self.frame_bytes, -(-end // self.frame_bytes))

    def span(self, frame: int) -> tuple[int, int]:
        """Position and length of a frame in the compressed file."""
        start = int(self.ends[frame - 1]) if frame else 0
        return start, int(self.ends[frame]) - start

    def check(self, frame: int, compressed: Buffer) -> None:
        """Raise when a frame is not what was written."""
        if checksum(compressed) != int(self.checksums[frame]):
            raise InvalidChecksum(f"frame {frame} of a compressed segment is damaged")

    def inflate(self, frame: int, compressed: Buffer) -> bytes:
        """The plain bytes of a frame; raises when it is not what was written."""
        self.check(frame, compressed)
        size = min(self.frame_bytes, self.plain_bytes - frame * self.frame_bytes)
        return decompress(self.algorithm, compressed, size)

    def read(self, read: ReadAt, start: int, end: int) -> bytes:
        """Bytes [start, end) of the plain segment, as far as it goes."""
        frames = self.covering(start, end)
        if not frames:
            return b""
        plain = b"".join([self.inflate(frame, read(*self.span(frame))) for frame in frames])
        begin = frames.start * self.frame_bytes
        return plain[start - begin : end - begin]


def _last_wrapper(
    algorithm: Compression, read: ReadAt, end: int, content_bytes: int
) -> tuple[bytes, int]:
    """Content and start of the wrapper that ends at this position of the file."""
    start = end - content_bytes - sum(_around(algorithm))
    if start < 0:
        raise StorageFailure("a compressed segment does not end with its frame table")
    return _unwrapped(algorithm, bytes(read(start, end - start))), start
