"""Polls between shards: the files their answers refer to, and read-ahead.

The owner of a partition answers with ranges of files (`shard/crossing.py`). The descriptor of each
file is sent once (`shard/crossing_files.py`). Announcements of files, answers, and notices that a
file was deleted are delivered in order.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from borzoi.model.errors import ShardUnavailable
from borzoi.model.namespace import Namespace
from borzoi.partitions.operation_codec import is_repeatable
from borzoi.partitions.operations import Poll
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.security.encryption import Cipher
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.crossing import decode_polled, encode_polled, encode_request
from borzoi.shard.crossing_files import Announcement, ReceivedFiles, SentFiles
from borzoi.shard.envelopes import Bytes, Subject
from borzoi.shard.reading_ahead import ReadingAhead, readings_behind
from borzoi.storage.compressed import FrameCache
from borzoi.storage.local import LocalFile
from borzoi.storage.media import ReadOnlyFile

_ENCODER: Final = msgspec.msgpack.Encoder()
_ANNOUNCEMENT: Final = msgspec.msgpack.Decoder(Announcement)
_NUMBERS: Final = msgspec.msgpack.Decoder(list[int])


class CrossedPolls:
    """The polls between this shard and its peers, in both directions. A peer has at most
    `files_max` files of this shard open."""

    def __init__(self, bus: Bus, cipher: Cipher | None, files_max: int) -> None:
        self._bus = bus
        self._cipher = cipher
        self._files_max = files_max
        self._frames = FrameCache()
        self._sent: dict[int, SentFiles] = {}
        self._received: dict[int, ReceivedFiles] = {}
        self._ahead: dict[int, ReadingAhead] = {}
        bus.answer(Subject.FILE, self._file_announced)
        bus.answer(Subject.FILES_GONE, self._files_gone)

    # Polls of this shard's clients.

    def known(self, owner: int, namespace: Namespace, poll: Poll) -> Polled | None:
        """Return the answer if the owner has sent it ahead."""
        files, ahead = self._received.get(owner), self._ahead.get(owner)
        if files is None or ahead is None:
            return None
        found = ahead.found(namespace, poll, files)
        if found is None:
            return None
        if found.more is not None:
            self.ask(owner, namespace, found.more, _nothing)
        return found.polled

    def ask(
        self, owner: int, namespace: Namespace, poll: Poll, make: Callable[[Polled], Any]
    ) -> "Future[Any]":
        """Send the poll to the owner; return a future of the answer, passed through `make`."""
        ahead = self._ahead_of(owner)
        generation = ahead.generation
        _, body = encode_request(namespace, poll, 0, ahead.welcome(namespace, poll))
        return self._bus.request(
            owner,
            Subject.OPERATION,
            Letter(body),
            repeatable=is_repeatable(poll),
            make=lambda found: make(self.arrived(found, namespace, poll, generation)),
        )

    def arrived(self, found: Arrived, namespace: Namespace, poll: Poll, generation: int) -> Polled:
        """Decode the answer of the owner, and keep what it sent ahead."""
        files = self._received.get(found.shard)
        if files is None:
            files = NO_FILES
        polled, further = decode_polled(found.body, files, self._cipher)
        ahead = self._ahead_of(found.shard)
        if ahead.generation == generation:
            ahead.keep(namespace, poll, polled, further)
        return polled

    def _ahead_of(self, owner: int) -> ReadingAhead:
        ahead = self._ahead.get(owner)
        if ahead is None:
            ahead = self._ahead[owner] = ReadingAhead()
        return ahead

    def forget_ahead(self) -> None:
        """Drop all read-ahead: partitions have changed."""
        for ahead in self._ahead.values():
            ahead.forget()

    # Polls of other shards.

    def answer(
        self, peer: int, partition: Partition, poll: Poll, polled: Polled, further: int
    ) -> Bytes:
        """Encode the answer for a peer; files that it does not have are announced first."""
        behind = readings_behind(partition, poll, polled, further) if further else ()
        # Most of the readings are in the same file.
        numbers: dict[int, int] = {}

        def number_of(file: ReadOnlyFile) -> int:
            number = numbers.get(id(file))
            if number is None:
                number = numbers[id(file)] = self._number_of(peer, file)
            return number

        return encode_polled(polled, number_of, behind)

    def _number_of(self, peer: int, file: ReadOnlyFile) -> int:
        """Return the number of a file at a peer; announce the file if it is new there."""
        sent = self._sent.get(peer)
        if sent is None:
            sent = self._sent[peer] = SentFiles(self._files_max)
        number, announced = sent.number_of(file)
        if announced is not None:
            announcement, descriptor = announced
            body = _ENCODER.encode(announcement)
            self._bus.tell(peer, Subject.FILE, Letter(body, [descriptor]))
            self._tell_gone(peer, sent.surplus())
        return number

    # Files that cross.

    def _file_announced(self, told: Arrived) -> Letter:
        files = self._received.get(told.shard)
        if files is None:
            files = self._received[told.shard] = ReceivedFiles(self._frames)
        files.add(_ANNOUNCEMENT.decode(told.body), told.descriptors[0])
        return Letter()

    def _files_gone(self, told: Arrived) -> Letter:
        files = self._received.get(told.shard)
        if files is not None:
            files.drop(_NUMBERS.decode(told.body))
        return Letter()

    def release_deleted(self) -> None:
        """Tell the other shards to close files that were deleted or replaced here."""
        for peer, sent in self._sent.items():
            self._tell_gone(peer, sent.gone())

    def _tell_gone(self, peer: int, numbers: Sequence[int]) -> None:
        if numbers:
            self._bus.tell(peer, Subject.FILES_GONE, Letter(_ENCODER.encode(numbers)))

    def forget_peer(self, shard: int) -> None:
        """Drop all state of a peer that has died."""
        self._sent.pop(shard, None)
        self._received.pop(shard, None)
        if shard in self._ahead:
            self._ahead[shard].forget()

    @property
    def files_held(self) -> int:
        """How many files of other shards are open here."""
        return sum(len(files) for files in self._received.values())

    def close(self) -> None:
        for files in self._received.values():
            files.clear()


class _NoFiles(ReceivedFiles):
    """The files of a peer that has announced none, or has died."""

    def get(self, number: int) -> LocalFile:
        raise ShardUnavailable(f"file {number} belongs to a shard that is gone")


NO_FILES: Final = _NoFiles(FrameCache(0))


def _nothing(_: Polled) -> None:
    """No caller waits for the answer: `arrived` has kept the ranges that came with it."""
