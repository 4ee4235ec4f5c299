"""Polls between shards, and the files their answers refer to.

The owner of a partition answers with ranges of files (`shard/crossing.py`). The descriptor of each
file is sent once (`shard/crossing_files.py`). Announcements of files, answers, and notices that a
file was deleted are delivered in order.
"""

from collections.abc import Callable, Sequence
from operator import sub
from typing import Any, Final

import msgspec

from borzoi.model.errors import ShardUnavailable
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import PromptFuture
from borzoi.partitions.operation_codec import is_repeatable
from borzoi.partitions.operations import Poll
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.security.encryption import Cipher
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.crossing import Stretch, decode_polled, encode_polled, encode_request
from borzoi.shard.crossing_files import Announcement, ReceivedFiles, SentFiles
from borzoi.shard.envelopes import Bytes, Subject
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
        #: Grows when partitions change or a peer dies: what was sent ahead before is not used.
        self.generation = 0
        bus.answer(Subject.FILE, self._file_announced)
        bus.answer(Subject.FILES_GONE, self._files_gone)

    # Polls of this shard's clients.

    def ask(
        self,
        owner: int,
        namespace: Namespace,
        poll: Poll,
        make: Callable[[Polled, Stretch | None], Any],
        welcome: int = 0,
    ) -> PromptFuture[Any]:
        """Send the poll to the owner, which may add as many of the next ones as are `welcome`;
        return a future of the answer, passed through `make`."""
        _, body = encode_request(namespace, poll, 0, welcome)
        return self._bus.request(
            owner,
            Subject.OPERATION,
            Letter(body),
            repeatable=is_repeatable(poll),
            make=lambda found: make(*self.arrived(found)),
        )

    def arrived(self, found: Arrived) -> tuple[Polled, Stretch | None]:
        """Decode the answer of an owner."""
        files = self._received.get(found.shard)
        return decode_polled(found.body, NO_FILES if files is None else files, self._cipher)

    def file_of(self, owner: int, number: int) -> LocalFile | None:
        """A file that was announced by its owner, if it was not deleted."""
        files = self._received.get(owner)
        return None if files is None else files.find(number)

    def forget_ahead(self) -> None:
        """Use nothing that was sent ahead: partitions have changed."""
        self.generation += 1

    # Polls of other shards.

    def answer(
        self, peer: int, partition: Partition, poll: Poll, polled: Polled, welcome: int
    ) -> Bytes:
        """Encode the answer for a peer; files that it does not have are announced first."""
        ahead = ends_ahead(partition, poll, polled, welcome) if welcome else ()
        return encode_polled(polled, lambda file: self._number_of(peer, file), ahead)

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
        self.generation += 1

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


def ends_ahead(partition: Partition, poll: Poll, polled: Polled, number: int) -> Sequence[int]:
    """Where the next polls of the client end, as long as each finds all it asks for in the file of
    the polled messages.

    The last message is never included, so that a client that reaches the end asks the owner.
    """
    reading, count = polled.reading, poll.count
    is_whole = reading.count == count and not reading.tail
    if not is_whole or len(reading.ranges) != 1:
        return ()
    start = reading.first_offset + count
    ends = partition.log.ends(start, min(start + number * count, polled.current_offset), count)
    part = reading.ranges[0]
    starts = [part.position + part.length, *ends]
    return ends if max(map(sub, ends, starts), default=0) <= poll.size_max else ()
