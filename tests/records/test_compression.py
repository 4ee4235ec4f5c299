"""Compressed frames, whole and cut, with and without the libraries."""

import gzip
import sys
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import FeatureUnavailable, InvalidChecksum, StorageFailure
from borzoi.model.topics import Compression
from borzoi.records.checksum import checksum
from borzoi.records.compression import (
    CODECS,
    ENTRIES_PER_WRAPPER,
    FRAME_BYTES,
    FRAME_BYTES_MAX,
    MAGIC,
    TRAILER,
    Frames,
    ReadAt,
    codec,
    compress,
    compress_frames,
    cut,
    decompress,
)

ALGORITHMS = list(CODECS)
algorithms = st.sampled_from(ALGORITHMS)
every_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test hide libraries; what was loaded before and after is forgotten."""
    codec.cache_clear()
    yield monkeypatch
    codec.cache_clear()


def reading(data: bytes) -> ReadAt:
    return lambda position, length: data[position : position + length]


def whole(algorithm: Compression, plain: bytes, frame_bytes: int = FRAME_BYTES) -> bytes:
    return b"".join(compress_frames(algorithm, cut(plain, frame_bytes), frame_bytes))


def read_whole(algorithm: Compression, compressed: bytes) -> bytes:
    frames = Frames.open(algorithm, reading(compressed), len(compressed))
    return frames.read(reading(compressed), 0, frames.plain_bytes)


# ---- one interface ------------------------------------------------------------------------------


@given(st.sampled_from(Compression), st.binary(max_size=5000))
def test_what_is_compressed_comes_back(algorithm: Compression, plain: bytes) -> None:
    compressed = compress(algorithm, memoryview(plain))
    assert decompress(algorithm, memoryview(compressed), len(plain)) == plain


@pytest.mark.parametrize("algorithm", Compression, ids=lambda a: a.name)
@pytest.mark.parametrize("wrong", [0, 999, 1001, 10**6])
def test_another_size_than_was_promised_is_refused(algorithm: Compression, wrong: int) -> None:
    compressed = compress(algorithm, bytes(1000))
    with pytest.raises(StorageFailure):
        decompress(algorithm, compressed, wrong)


@every_algorithm
def test_a_bomb_is_not_inflated(algorithm: Compression) -> None:
    bomb = compress(algorithm, bytes(100_000_000))
    with pytest.raises(StorageFailure):
        decompress(algorithm, bomb, 10)


@every_algorithm
def test_a_frame_with_something_behind_it_is_refused(algorithm: Compression) -> None:
    compressed = compress(algorithm, b"plain")
    with pytest.raises(StorageFailure):
        decompress(algorithm, compressed + b"more", 5)


@every_algorithm
def test_half_a_frame_is_refused(algorithm: Compression) -> None:
    compressed = compress(algorithm, b"plain" * 20)
    for end in range(len(compressed)):
        with pytest.raises(StorageFailure):
            decompress(algorithm, compressed[:end], 100)


@given(algorithms, st.binary(max_size=300), st.integers(0, 1000))
def test_garbage_raises_ours(algorithm: Compression, garbage: bytes, size: int) -> None:
    with pytest.raises(StorageFailure):
        decompress(algorithm, garbage, size)


@given(algorithms, st.data())
def test_a_changed_frame_raises_ours_or_is_not_noticed_yet(
    algorithm: Compression, data: st.DataObject
) -> None:
    """Formats check themselves more or less well; the frame table does it for all of them."""
    plain = data.draw(st.binary(min_size=1, max_size=500))
    changed = bytearray(compress(algorithm, plain))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        assert len(decompress(algorithm, changed, len(plain))) == len(plain)
    except StorageFailure:
        pass


# ---- libraries ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "modules"),
    [
        (Compression.LZ4, ["lz4"]),
        (Compression.ZSTD, ["compression", "compression.zstd", "backports", "backports.zstd"]),
    ],
    ids=["lz4", "zstd"],
)
def test_a_missing_library_is_named_with_its_extra(
    hidden: pytest.MonkeyPatch, algorithm: Compression, modules: list[str]
) -> None:
    for module in modules:
        hidden.setitem(sys.modules, module, None)
    for attempt in (lambda: compress(algorithm, b"x"), lambda: decompress(algorithm, b"x", 1)):
        with pytest.raises(FeatureUnavailable, match=r"borzoi\[compression\]"):
            attempt()


def test_gzip_needs_no_extra(hidden: pytest.MonkeyPatch) -> None:
    plain = b"plain" * 100
    with_isal = compress(Compression.GZIP, plain)
    codec.cache_clear()
    hidden.setitem(sys.modules, "isal", None)
    without = compress(Compression.GZIP, plain)
    assert decompress(Compression.GZIP, with_isal, 500) == plain
    assert decompress(Compression.GZIP, without, 500) == plain
    assert gzip.decompress(with_isal) == gzip.decompress(without) == plain
    with pytest.raises(StorageFailure):
        decompress(Compression.GZIP, b"garbage", 500)


# ---- frames -------------------------------------------------------------------------------------


@given(algorithms, st.binary(max_size=3000), st.integers(1, 700), st.data())
def test_any_range_of_the_plain_segment_can_be_read(
    algorithm: Compression, plain: bytes, frame_bytes: int, data: st.DataObject
) -> None:
    compressed = whole(algorithm, plain, frame_bytes)
    frames = Frames.open(algorithm, reading(compressed), len(compressed))
    start = data.draw(st.integers(0, len(plain) + 10))
    end = data.draw(st.integers(0, len(plain) + 10))
    assert frames.read(reading(compressed), start, end) == plain[start:end]
    assert frames.plain_bytes == len(plain)
    assert len(frames) == -(-len(plain) // frame_bytes)


@given(algorithms, st.integers(1, 3000), st.integers(1, 700), st.data())
def test_only_the_frames_that_cover_a_range_are_inflated(
    algorithm: Compression, size: int, frame_bytes: int, data: st.DataObject
) -> None:
    plain = bytes(number % 251 for number in range(size))
    compressed = whole(algorithm, plain, frame_bytes)
    frames = Frames.open(algorithm, reading(compressed), len(compressed))
    start = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(start + 1, size))
    covering = frames.covering(start, end)
    assert covering.start * frame_bytes <= start < (covering.start + 1) * frame_bytes
    assert (covering.stop - 1) * frame_bytes < end <= covering.stop * frame_bytes
    reads: list[tuple[int, int]] = []

    def counted(position: int, length: int) -> bytes:
        reads.append((position, length))
        return compressed[position : position + length]

    frames.read(counted, start, end)
    assert reads == [frames.span(frame) for frame in covering]


@every_algorithm
def test_a_real_segment_has_frames_of_256_kib(algorithm: Compression) -> None:
    plain = b"".join(b"message %d" % number for number in range(100_000))
    pieces = list(compress_frames(algorithm, cut(plain)))
    frames = Frames.open(algorithm, reading(b"".join(pieces)), sum(map(len, pieces)))
    assert len(frames) == -(-len(plain) // FRAME_BYTES)
    assert sum(map(len, pieces)) < len(plain) / 2
    assert [frames.inflate(number, pieces[number]) for number in range(len(frames))] == [
        plain[at : at + FRAME_BYTES] for at in range(0, len(plain), FRAME_BYTES)
    ]


@every_algorithm
def test_a_table_of_many_frames_is_wrapped_in_parts(algorithm: Compression) -> None:
    plain = bytes(number % 7 for number in range(ENTRIES_PER_WRAPPER + 3))
    compressed = whole(algorithm, plain, 1)
    frames = Frames.open(algorithm, reading(compressed), len(compressed))
    at = ENTRIES_PER_WRAPPER
    assert frames.read(reading(compressed), at - 2, at + 3) == plain[at - 2 : at + 3]


@pytest.mark.parametrize("size", [0, 1, 1000, ENTRIES_PER_WRAPPER + 1])
def test_the_usual_tools_print_the_plain_segment(size: int) -> None:
    plain = bytes(number % 5 for number in range(size))
    frame_bytes = 300 if size == 1000 else 1
    assert gzip.decompress(whole(Compression.GZIP, plain, frame_bytes)) == plain
    zstd, lz4 = (codec(each) for each in (Compression.ZSTD, Compression.LZ4))
    for algorithm, library in ((Compression.ZSTD, zstd), (Compression.LZ4, lz4)):
        rest, printed = whole(algorithm, plain, frame_bytes), b""
        while rest:
            decompressor = library.decompressor()
            printed += decompressor.decompress(rest, size + 1)
            assert decompressor.eof
            rest = decompressor.unused_data or b""
        assert printed == plain


@every_algorithm
@pytest.mark.parametrize("size", [0, 1, 700])
def test_a_file_cut_at_any_byte_is_refused(algorithm: Compression, size: int) -> None:
    compressed = whole(algorithm, bytes(number % 9 for number in range(size)), 100)
    for end in range(len(compressed)):
        with pytest.raises(StorageFailure):
            Frames.open(algorithm, reading(compressed[:end]), end)
        with pytest.raises(StorageFailure):
            Frames.open(algorithm, reading(compressed[end + 1 :]), len(compressed) - end - 1)


@every_algorithm
def test_a_reader_that_gives_too_little_is_refused(algorithm: Compression) -> None:
    compressed = whole(algorithm, bytes(500), 100)
    with pytest.raises(StorageFailure):
        Frames.open(algorithm, reading(compressed[:-1]), len(compressed))
    frames = Frames.open(algorithm, reading(compressed), len(compressed))
    with pytest.raises(InvalidChecksum):
        frames.read(reading(compressed[:5]), 0, 500)


@given(algorithms, st.binary(min_size=1, max_size=500), st.data())
def test_every_flipped_bit_is_noticed(
    algorithm: Compression, plain: bytes, data: st.DataObject
) -> None:
    changed = bytearray(whole(algorithm, plain, 100))
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StorageFailure):
        read_whole(algorithm, bytes(changed))


@given(algorithms, st.binary(max_size=400))
def test_garbage_is_no_compressed_segment(algorithm: Compression, garbage: bytes) -> None:
    with pytest.raises(StorageFailure):
        Frames.open(algorithm, reading(garbage), len(garbage))


def forged(**changes: int | bytes) -> bytes:
    """An empty segment whose trailer was changed and sealed again."""
    fields: dict[str, int | bytes] = {
        "magic": MAGIC,
        "algorithm": Compression.ZSTD,
        "frame_bytes": 100,
        "plain_bytes": 0,
        "frames": 0,
    }
    trailer = TRAILER.pack(*(fields | changes).values(), 0)[:-8]
    trailer += checksum(trailer).to_bytes(8, "little")
    return bytes.fromhex("5b2a4d18") + len(trailer).to_bytes(4, "little") + trailer


@pytest.mark.parametrize(
    "changes",
    [
        {"magic": b"borzoi-2"},
        {"algorithm": Compression.GZIP},
        {"frame_bytes": 0},
        {"frame_bytes": FRAME_BYTES_MAX + 1},
        {"frames": 1},
        {"plain_bytes": 1},
        {"plain_bytes": 2**63, "frame_bytes": 1, "frames": 2**63},
        {"plain_bytes": 100, "frames": 1},
    ],
    ids=str,
)
def test_a_trailer_that_does_not_add_up_is_refused(changes: dict[str, int | bytes]) -> None:
    sound, wrong = forged(), forged(**changes)
    assert Frames.open(Compression.ZSTD, reading(sound), len(sound)).plain_bytes == 0
    with pytest.raises(StorageFailure):
        Frames.open(Compression.ZSTD, reading(wrong), len(wrong))


@every_algorithm
def test_a_changed_table_is_noticed(algorithm: Compression) -> None:
    pieces = list(compress_frames(algorithm, cut(bytes(500), 100), 100))
    table = bytearray(pieces[-2])
    table[30] ^= 1
    pieces[-2] = bytes(table)
    with pytest.raises(InvalidChecksum):
        read_whole(algorithm, b"".join(pieces))


def test_bytes_in_front_of_the_frames_are_noticed() -> None:
    compressed = b"?" + whole(Compression.ZSTD, b"plain")
    with pytest.raises(StorageFailure, match="not all there"):
        Frames.open(Compression.ZSTD, reading(compressed), len(compressed))


def test_a_segment_of_another_algorithm_is_refused() -> None:
    compressed = whole(Compression.LZ4, b"plain")
    with pytest.raises(StorageFailure, match="ZSTD"):
        Frames.open(Compression.ZSTD, reading(compressed), len(compressed))


def test_gzip_frames_are_gzip_members() -> None:
    compressed = whole(Compression.GZIP, b"a" * 100 + b"b" * 100, 100)
    frames = Frames.open(Compression.GZIP, reading(compressed), len(compressed))
    position, length = frames.span(1)
    assert zlib.decompress(compressed[position : position + length], 31) == b"b" * 100
