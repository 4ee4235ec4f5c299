"""Polls that go on where another one ended: answered by what its owner said ahead.

Asking the owner costs two wake-ups, which take longer than finding the messages. A client that
reads a partition from one offset to the next will ask for what lies behind, so its owner adds the
places of the next few readings to an answer, and the polls that fit are answered without it. When
half of them are read, the owner is asked for more, while the client is busy with what it has.

Only polls by offset that commit nothing are: all others depend on what the owner knows. What was
said ahead holds for a moment (`FRESH_SECONDS`), ends before the last message that was known, so no
client takes it for the end of the partition, and is forgotten when partitions change.
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

#: How long it holds what an owner said: a few polls of a client that does nothing else.
FRESH_SECONDS: Final = 0.02
#: Readings that an owner says ahead at most.
FURTHER_MAX: Final = 8
#: Places in partitions where polls may go on; the oldest are forgotten.
PLACES_MAX: Final = 1024
NOWHERE: Final = -1


class _Next(msgspec.Struct):
    """A place where a poll ended."""

    #: How many polls have come here one after another.
    run: int
    #: What the owner said of the messages here, for polls of this count and size.
    said: Further | None = None
    count: int = 0
    size_max: int = 0
    current_offset: int = 0
    until: float = 0.0
    #: Where to ask for more when this is read: the last place of which something is known.
    ask_at: int = NOWHERE


class Known(msgspec.Struct, frozen=True):
    """An answer that was said ahead."""

    polled: Polled
    #: The poll to ask the owner meanwhile, so that the client will not have to wait for it.
    more: Poll | None


class ReadingAhead:
    """What the owner of each partition said ahead. One for each peer."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._places: OrderedDict[tuple[Namespace, int], _Next] = OrderedDict()
        #: Grows when everything is forgotten: an answer to an earlier question is too old to keep.
        self.generation = 0

    def __len__(self) -> int:
        return len(self._places)

    def found(self, namespace: Namespace, poll: Poll, files: CrossedFiles) -> Known | None:
        """The answer to a poll, where it is known."""
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
            place.said = None
            return None
        try:
            ranges = file_ranges(said.ranges, files)
        except InvalidFormat:
            return None  # a file is gone
        self._reached(namespace, offset, offset + said.count)
        more = None
        if place.ask_at != NOWHERE:
            more = msgspec.structs.replace(poll, strategy=PollingStrategy.offset(place.ask_at))
            place.ask_at = NOWHERE
        return Known(Polled(Reading(offset, said.count, ranges), place.current_offset), more)

    def welcome(self, namespace: Namespace, poll: Poll) -> int:
        """How many readings the owner may say ahead: the more, the longer a client goes on."""
        if not _goes_on(poll):
            return 0
        place = self._places.get((namespace, poll.strategy.value))
        return 0 if place is None else min(1 << place.run, FURTHER_MAX)

    def keep(
        self, namespace: Namespace, poll: Poll, polled: Polled, further: Sequence[Further]
    ) -> None:
        """The owner has answered."""
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
        """A poll has read from start to end, and its client will go on from there; how many have
        come there one after another."""
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
        """Partitions have changed, or a peer is gone."""
        self._places.clear()
        self.generation += 1


def _goes_on(poll: Poll) -> bool:
    """Whether the answer depends on nothing but the messages and the offset."""
    return (
        poll.strategy.kind is PollingKind.OFFSET
        and poll.kind is ConsumerKind.CONSUMER
        and not poll.auto_commit
    )


def readings_behind(partition: Partition, poll: Poll, polled: Polled, number: int) -> list[Reading]:
    """What the next polls of a client that goes on would find, as far as it lies in plain files.

    It ends before the last message, so that a client at the end of what was said asks again.
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
