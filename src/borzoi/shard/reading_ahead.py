"""Read-ahead for sequential polls of a partition that another shard owns.

A request to the owner takes two wake-ups, which cost more than finding the messages. A client that
polls from offset to offset will ask for the next messages too. So the owner adds the file ranges of
the next few polls to its answer, and polls that match are answered without it. When half of the
ranges are used, this shard requests more while the client is busy with what it has.

Only polls by offset that commit nothing are answered this way; all others depend on state of the
owner. The ranges are valid for `FRESH_SECONDS`. They end before the last message the owner had, so
no client takes them for the end of the partition. All are dropped when partitions change.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import msgspec

from borzoi.model.consuming import ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import Poll
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.shard.crossing import CrossedFiles, Further, file_ranges
from borzoi.storage.reading import Reading

#: How long ranges may be used: time for a few polls of a client that does nothing else.
FRESH_SECONDS: Final = 0.02
#: The most polls an owner adds to one answer.
FURTHER_MAX: Final = 16
#: Offsets at which polls may continue; the oldest are dropped.
PLACES_MAX: Final = 1024
NOWHERE: Final = -1


class _Next(msgspec.Struct):
    """An offset where a poll ended."""

    #: How many consecutive polls led here.
    run: int
    #: The messages here, for polls of this count and size.
    said: Further | None = None
    count: int = 0
    size_max: int = 0
    current_offset: int = 0
    until: float = 0.0
    #: The offset from which to request more when this is read.
    ask_at: int = NOWHERE


class Known(msgspec.Struct, frozen=True):
    """An answer from read-ahead."""

    polled: Polled
    #: A poll to send to the owner now, so that the client does not wait for it later.
    more: Poll | None


class ReadingAhead:
    """The ranges that one peer sent ahead."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._places: OrderedDict[tuple[Namespace, int], _Next] = OrderedDict()
        #: Grows when all ranges are dropped: an answer to an earlier request must not be kept.
        self.generation = 0

    def __len__(self) -> int:
        return len(self._places)

    def found(self, namespace: Namespace, poll: Poll, files: CrossedFiles) -> Known | None:
        """Return the answer to a poll, or None if it is not known."""
        if not _goes_on(poll):
            return None
        offset = poll.strategy.value
        place = self._places.get((namespace, offset))
        said = None if place is None else place.said
        if place is None or said is None:
            return None
        if place.count != poll.count or place.size_max != poll.size_max:
            return None
        if place.until < self._clock():
            # The client is too slow to use them all: send less ahead from here on.
            place.said, place.run = None, 1
            return None
        try:
            ranges = file_ranges(said.ranges, files)
        except InvalidFormat:
            return None  # a file was deleted
        self._place(namespace, offset + said.count).run = min(place.run + 1, FURTHER_MAX)
        more = None
        if place.ask_at != NOWHERE:
            more = msgspec.structs.replace(poll, strategy=PollingStrategy.offset(place.ask_at))
            place.ask_at = NOWHERE
        return Known(Polled(Reading(offset, said.count, ranges), place.current_offset), more)

    def welcome(self, namespace: Namespace, poll: Poll) -> int:
        """Return how many polls the owner may add: more for a longer run of polls."""
        if not _goes_on(poll):
            return 0
        place = self._places.get((namespace, poll.strategy.value))
        return 0 if place is None else min(1 << place.run, FURTHER_MAX)

    def keep(
        self, namespace: Namespace, poll: Poll, polled: Polled, further: Sequence[Further]
    ) -> None:
        """Keep what the owner sent ahead with its answer."""
        reading = polled.reading
        if not reading.count or not _goes_on(poll):
            return
        start = reading.first_offset
        end = start + reading.count + reading.left_out
        run = self._reached(namespace, start, end)
        until = self._clock() + FRESH_SECONDS
        known: list[_Next] = []
        for said in further:
            start = end
            place = self._place(namespace, start)
            place.run, place.said, place.until = run, said, until
            place.count, place.size_max = poll.count, poll.size_max
            place.current_offset, place.ask_at = polled.current_offset, NOWHERE
            known.append(place)
            end += said.count
        if len(known) == FURTHER_MAX:
            known[FURTHER_MAX // 2].ask_at = start

    def _reached(self, namespace: Namespace, start: int, end: int) -> int:
        """Note that a poll has read from start to end; return the length of the run of polls."""
        before = self._places.get((namespace, start))
        place = self._place(namespace, end)
        place.run = 1 if before is None else min(before.run + 1, FURTHER_MAX)
        return place.run

    def _place(self, namespace: Namespace, offset: int) -> _Next:
        place = self._places.get((namespace, offset))
        if place is None:
            place = self._places[namespace, offset] = _Next(0)
            if len(self._places) > PLACES_MAX:
                self._places.popitem(last=False)
        return place

    def forget(self) -> None:
        """Drop everything: partitions have changed, or the peer has died."""
        self._places.clear()
        self.generation += 1


def _goes_on(poll: Poll) -> bool:
    """Return whether the answer depends on the messages and the offset only."""
    return (
        poll.strategy.kind is PollingKind.OFFSET
        and poll.kind is ConsumerKind.CONSUMER
        and not poll.auto_commit
    )


def readings_behind(partition: Partition, poll: Poll, polled: Polled, number: int) -> list[Reading]:
    """Return what the next polls of the client would find, as long as it is in plain files.

    The last message is never included, so that a client that reaches the end asks the owner.
    """
    reading, found = polled.reading, list[Reading]()
    while len(found) < number and reading.count and not reading.tail:
        behind = partition.log.read(reading.last_offset + 1, poll.count, size_max=poll.size_max)
        if not isinstance(behind, Reading) or behind.tail or not behind.count:
            break
        if behind.last_offset >= polled.current_offset:
            break
        found.append(behind)
        reading = behind
    return found
