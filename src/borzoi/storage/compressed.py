"""Sealed segments as compressed twins: `{offset:020}.log.{gz|lz4|zst}` in place of the `.log`.

A sealed segment is compressed in a thread, into a draft that is read back and compared. The rest
happens on the loop, after checking that no purge or retention has removed the segment: rename, sync
the directory, adopt, remove the plain file.
A crash in between leaves a draft (removed at the next start) or both files (the plain one counts).

A read inflates only the frames it touches. Recently inflated frames are cached, because a consumer
that reads a segment sequentially comes back for the rest of the frame.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.topics import Compression
from borzoi.records.compression import FRAME_BYTES, Frames, compress, compress_frames
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.layout import DRAFT_SUFFIX, index_name, log_name, twin_name
from borzoi.storage.log import SegmentedLog
from borzoi.storage.media import File, Medium, read_exactly, write_all
from borzoi.storage.segment import SegmentFacts

logger = logging.getLogger(__name__)

SUFFIXES: Final[Mapping[Compression, str]] = {
    Compression.GZIP: ".gz",
    Compression.LZ4: ".lz4",
    Compression.ZSTD: ".zst",
}
ALGORITHMS: Final[Mapping[str, Compression]] = {
    suffix: algorithm for algorithm, suffix in SUFFIXES.items()
}

#: Inflated frames kept by all twins of a shard together (8 MiB).
FRAMES_KEPT: Final = 32
#: A segment whose sample does not shrink to this fraction stays plain: `sendfile` is worth more
#: than a few bytes. Encrypted messages and images do not compress.
WORTHWHILE: Final = 0.9
SAMPLES: Final = 8

T = TypeVar("T")
#: Runs a blocking function in a thread.
Offload: TypeAlias = Callable[..., Awaitable[Path | None]]


class FrameCache:
    """Inflated frames by file and number; the least recently used one is evicted."""

    __slots__ = ("_frames", "_limit")

    def __init__(self, limit: int = FRAMES_KEPT) -> None:
        self._frames: OrderedDict[tuple[Path, int], bytes] = OrderedDict()
        self._limit = limit

    def __len__(self) -> int:
        return len(self._frames)

    def get(self, path: Path, number: int) -> bytes | None:
        frame = self._frames.get((path, number))
        if frame is not None:
            self._frames.move_to_end((path, number))
        return frame

    def put(self, path: Path, number: int, frame: bytes) -> None:
        self._frames[path, number] = frame
        if len(self._frames) > self._limit:
            self._frames.popitem(last=False)

    def forget(self, path: Path) -> None:
        for key in [key for key in self._frames if key[0] == path]:
            del self._frames[key]


class CompressedBody:
    """The messages of a sealed segment, inflated on demand."""

    __slots__ = ("_cache", "_frames", "file", "path")

    def __init__(self, file: File, frames: Frames, cache: FrameCache) -> None:
        self.path = file.path
        self.file = file
        self._frames = frames
        self._cache = cache

    @property
    def size(self) -> int:
        """Bytes of the plain messages."""
        return self._frames.plain_bytes

    def part(self, position: int, length: int) -> memoryview:
        """Plain bytes; `StorageFailure` names the file when a frame is damaged."""
        covering = self._frames.covering(position, position + length)
        if not covering:
            return memoryview(b"")
        parts = [self._inflated(number) for number in covering]
        start = position - covering.start * self._frames.frame_bytes
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        return memoryview(whole)[start : start + length]

    def check(self, position: int, length: int) -> None:
        """Compare the frames with their checksums, which takes a fraction of inflating them."""
        for number in self._frames.covering(position, position + length):
            if self._cache.get(self.path, number) is None:
                self._stored(number, self._frames.check)

    def close(self) -> None:
        self.file.close()

    def salvage(self, length: int, position: int) -> bytes:
        """As `part`, with zeros where a frame is damaged; for repairs."""
        frame_bytes = self._frames.frame_bytes
        parts = []
        for number in self._frames.covering(position, position + length):
            try:
                frame = self._inflated(number)
            except StorageFailure:
                frame = bytes(min(frame_bytes, self.size - number * frame_bytes))
            parts.append(frame)
        start = position % frame_bytes
        return b"".join(parts)[start : start + length]

    def _inflated(self, number: int) -> bytes:
        frame = self._cache.get(self.path, number)
        if frame is None:
            frame = self._stored(number, self._frames.inflate)
            self._cache.put(self.path, number, frame)
        return frame

    def _stored(self, number: int, use: Callable[[int, bytes], T]) -> T:
        """Inflate a stored frame; a fault names the place."""
        position, length = self._frames.span(number)
        try:
            return use(number, read_exactly(self.file, length, position))
        except StorageFailure as failure:
            raise type(failure)(f"{self.path}, byte {position}: {failure}") from failure


class TwinOpener:
    """Opens the twins of a shard, which share descriptors and inflated frames."""

    __slots__ = ("_cache", "_descriptors", "stays_plain")

    def __init__(
        self, descriptors: Descriptors | None = None, *, frames_kept: int = FRAMES_KEPT
    ) -> None:
        self._descriptors = descriptors
        self._cache = FrameCache(frames_kept)
        #: Segments that did not compress well; not tried again by this process.
        self.stays_plain: set[Path] = set()

    def __call__(self, medium: Medium, path: Path) -> CompressedBody:
        """What `open_log(open_twin=…)` wants."""
        descriptors = self._descriptors
        if descriptors is None:
            descriptors = Descriptors(medium, 1)
        return opened_twin(descriptors.file(path.parent, path.name), self._cache)


def opened_twin(file: File, cache: FrameCache) -> CompressedBody:
    """The messages of an open twin."""
    # An earlier file of this name may have been replaced since its frames were cached.
    cache.forget(file.path)
    return CompressedBody(file, _frames_of(file), cache)


def open_twin(medium: Medium, path: Path) -> CompressedBody:
    """Open a single twin, for tools."""
    return TwinOpener(frames_kept=2)(medium, path)


async def compress_sealed(
    log: SegmentedLog,
    algorithm: Compression,
    opener: TwinOpener,
    *,
    offload: Offload = asyncio.to_thread,
) -> int:
    """Compress the plain sealed segments of a log; return how many.

    A task of the partition's owner; it may be cancelled at any point, and it only touches the log
    between awaits.
    """
    compressed = 0
    for facts in log.segments():
        path = log.directory / log_name(facts.start_offset)
        if not (facts.sealed and facts.size) or path in opener.stays_plain:
            continue
        if not log.medium.exists(path):
            continue  # it is compressed already
        draft = await offload(write_draft, log.medium, log.directory, facts, algorithm)
        if draft is None:
            opener.stays_plain.add(path)
        elif await _put_in_place(log, facts, draft, opener, offload):
            compressed += 1
    return compressed


async def _put_in_place(
    log: SegmentedLog, facts: SegmentFacts, draft: Path, opener: TwinOpener, offload: Offload
) -> bool:
    """Rename, sync, adopt: each only if the segment is unchanged since the draft was written."""
    twin = draft.with_name(draft.name.removesuffix(DRAFT_SUFFIX))
    if facts not in log.segments():
        log.medium.unlink(draft)
        return False
    log.medium.rename(draft, twin)
    await offload(_sync_directory, log.medium, log.directory)
    if facts not in log.segments():
        log.medium.unlink(twin)
        return False
    log.adopt_twin(facts.start_offset, opener(log.medium, twin))
    return True


def write_draft(
    medium: Medium, directory: Path, facts: SegmentFacts, algorithm: Compression
) -> Path | None:
    """Compress a sealed segment into a draft next to it; None if it is not worth it. Blocks.

    The draft is on the disk and was read back when this returns.
    """
    log_path = directory / log_name(facts.start_offset)
    index_path = directory / index_name(facts.start_offset)
    with medium.open(log_path, writable=False) as log, medium.open(index_path) as index:
        return _draft_of(medium, directory, facts, algorithm, log, index)


def _draft_of(
    medium: Medium,
    directory: Path,
    facts: SegmentFacts,
    algorithm: Compression,
    log: File,
    index: File,
) -> Path | None:
    count = facts.end_offset - facts.start_offset + 1
    if index.size() != count * INDEX_ENTRY_BYTES or log.size() != facts.size:
        # Without a complete index the next start would have to inflate the whole twin to rebuild
        # it.
        return None
    if not _shrinks(log, facts.size, algorithm):
        return None
    # Sync both, although the log will be removed: if a power cut leaves both files, the plain one
    # counts, and it must be complete.
    log.fdatasync()
    index.fdatasync()
    path = directory / (twin_name(facts.start_offset, SUFFIXES[algorithm]) + DRAFT_SUFFIX)
    try:
        with medium.open(path, create=True) as draft:
            draft.truncate(0)
            end = 0
            for piece in compress_frames(algorithm, _plain(log, facts.size)):
                end = write_all(draft, [piece], end)
            draft.fdatasync()
            _compare(log, draft, facts.size)
    except StorageFailure:
        medium.unlink(path)
        raise
    return path


def _plain(log: File, size: int) -> Iterator[bytes]:
    """Yield the segment in the pieces that become its frames."""
    for at in range(0, size, FRAME_BYTES):
        yield read_exactly(log, min(FRAME_BYTES, size - at), at)


def _compare(log: File, draft: File, size: int) -> None:
    """Read the draft back and compare: the plain bytes are about to be deleted."""
    frames = _frames_of(draft, Path(draft.path.name.removesuffix(DRAFT_SUFFIX)).suffix)
    for number in range(len(frames)):
        position, length = frames.span(number)
        plain = frames.inflate(number, read_exactly(draft, length, position))
        if plain != read_exactly(log, len(plain), number * frames.frame_bytes):
            raise StorageFailure(f"{draft.path} does not inflate to what was compressed")
    if frames.plain_bytes != size:
        raise StorageFailure(f"{draft.path} is not as long as what was compressed")


def _shrinks(log: File, size: int, algorithm: Compression) -> bool:
    """Whether a sample from across the segment compresses well."""
    step = max(size // SAMPLES, FRAME_BYTES)
    plain = compressed = 0
    for at in range(0, size, step):
        sample = read_exactly(log, min(FRAME_BYTES, size - at), at)
        plain += len(sample)
        compressed += len(compress(algorithm, sample))
    return compressed <= plain * WORTHWHILE


def _frames_of(file: File, suffix: str | None = None) -> Frames:
    algorithm = ALGORITHMS.get(suffix or file.path.suffix)
    if algorithm is None:
        raise StorageFailure(f"{file.path} is not named like a compressed segment")

    def read(position: int, length: int) -> bytes:
        return read_exactly(file, length, position)

    try:
        return Frames.open(algorithm, read, file.size())
    except StorageFailure as failure:
        raise type(failure)(f"{file.path}: {failure}") from failure


def _sync_directory(medium: Medium, directory: Path) -> None:
    medium.fsync_directory(directory)
