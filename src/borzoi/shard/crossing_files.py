"""Segment files that other shards send from: each is passed once, and named by a number afterwards.

The owner of a partition announces a file before the first answer that names it, and retracts it
when it is deleted, replaced, or evicted. Answers and announcements to one peer keep their order,
so a number always means the same file on both sides. A file that is being sent from stays open on
the other side until that is done.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from borzoi.model.errors import InvalidFormat, StorageFailure
from borzoi.storage.compressed import CompressedBody, FrameCache, opened_twin
from borzoi.storage.descriptors import OnDemandFile
from borzoi.storage.local import LocalFile
from borzoi.storage.media import ReadOnlyFile

#: Device and inode: the same file, whichever descriptor it was opened with.
Identity = tuple[int, int]


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """The announcement of a file, sent with its descriptor."""

    number: int
    path: str


class SentFiles:
    """The files that one peer has received from this shard, at most `files_max`."""

    def __init__(self, files_max: int) -> None:
        self._files_max = files_max
        self._numbers = 0
        self._sent: OrderedDict[Identity, Announcement] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sent)

    def number_of(self, file: ReadOnlyFile) -> tuple[int, tuple[Announcement, int] | None]:
        """Return the number of a file and, if the peer does not have it yet, its announcement and a
        descriptor that the caller owns."""
        identity = _identity_of(file)
        known = self._sent.get(identity)
        if known is not None:
            self._sent.move_to_end(identity)
            return known.number, None
        try:
            descriptor = os.dup(file.fileno())
        except OSError as error:
            raise StorageFailure(f"cannot hand over {file.path}: {error.strerror}") from error
        self._numbers += 1
        announcement = Announcement(self._numbers, str(file.path))
        self._sent[identity] = announcement
        return announcement.number, (announcement, descriptor)

    def surplus(self) -> list[int]:
        """Evict the least recently used files over the limit; return their numbers."""
        gone = []
        while len(self._sent) > self._files_max:
            _, announcement = self._sent.popitem(last=False)
            gone.append(announcement.number)
        return gone

    def gone(self) -> list[int]:
        """Forget files that were deleted or replaced; return their numbers."""
        gone = []
        for identity, announcement in list(self._sent.items()):
            if _identity_at(announcement.path) != identity:
                del self._sent[identity]
                gone.append(announcement.number)
        return gone


class ReceivedFiles:
    """The files that this shard has received from one peer."""

    def __init__(self, frames: FrameCache) -> None:
        self._files: dict[int, LocalFile] = {}
        #: Those of them that are compressed and were read here.
        self._twins: dict[int, CompressedBody] = {}
        self._frames = frames

    def __len__(self) -> int:
        return len(self._files)

    def add(self, announcement: Announcement, descriptor: int) -> None:
        file = LocalFile(Path(announcement.path), descriptor)
        # It closes when the last poll that sends from it is done.
        file.share()
        self._files[announcement.number] = file

    def find(self, number: int) -> LocalFile | None:
        return self._files.get(number)

    def get(self, number: int) -> LocalFile:
        file = self._files.get(number)
        if file is None:
            raise InvalidFormat(f"file {number} was not announced")
        return file

    def twin(self, number: int) -> CompressedBody:
        """The messages in a compressed file."""
        twin = self._twins.get(number)
        if twin is None:
            twin = self._twins[number] = opened_twin(self.get(number), self._frames)
        return twin

    def drop(self, numbers: Sequence[int]) -> None:
        """Forget files. A file in use closes when the last poll is done with it."""
        for number in numbers:
            self._files.pop(number, None)
            self._twins.pop(number, None)

    def clear(self) -> None:
        self._files.clear()
        self._twins.clear()

    def __iter__(self) -> Iterator[LocalFile]:
        return iter(self._files.values())


def _identity_of(file: ReadOnlyFile) -> Identity:
    held = file.held() if isinstance(file, OnDemandFile) else file
    if isinstance(held, LocalFile):
        return held.identity  # known since it was opened
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def _identity_at(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a text, and hundreds of them
    except OSError:
        return None
    return found.st_dev, found.st_ino
