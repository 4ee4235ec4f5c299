"""How far a consumer has come in each of its partitions, and which one is next; pure.

For each partition three offsets, each of them of the last message that …

==========  ======================================================================================
given       was handed to the program
done        the program has processed: it requested the next one, or committed it
stored      the server stores as the place to continue from
==========  ======================================================================================

and `position`, the offset to poll from next.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from borzoi.client.messages import Message
from borzoi.model.errors import InvalidFormat
from borzoi.model.identifiers import Identifier

#: When the offsets of processed messages are stored.
Commit = Literal["each", "batch", "interval", "manual"]
COMMITS: Final = ("each", "batch", "interval", "manual")

#: Where to begin in a partition without a stored offset.
Begin = Literal["earliest", "latest"] | int | datetime

#: The pause after polls that found nothing begins here and doubles.
PAUSE_SECONDS_MIN: Final = 0.002


@dataclass(frozen=True, slots=True)
class Consuming:
    """How a consumer reads."""

    group: Identifier | None = None
    name: Identifier | None = None
    partitions: tuple[int, ...] | None = None
    begin: Begin = "earliest"
    commit: Commit = "batch"
    commit_interval: float = 1.0
    batch_messages: int = 1000
    poll_interval: float = 0.1
    follow: bool = True

    def __post_init__(self) -> None:
        if self.commit not in COMMITS:
            raise InvalidFormat(f"commit is {self.commit!r}; {', '.join(COMMITS)} are allowed")
        if self.group is not None and (self.name is not None or self.partitions is not None):
            raise InvalidFormat("a member of a group has neither a name nor partitions of its own")
        if self.begin not in ("earliest", "latest") and not isinstance(self.begin, int | datetime):
            raise InvalidFormat(
                f"cannot begin at {self.begin!r}: earliest, latest, an offset and a datetime are"
                " allowed"
            )
        if self.batch_messages < 1:
            raise InvalidFormat(f"batch_messages is {self.batch_messages}; at least 1 is allowed")

    @property
    def keeps_offsets(self) -> bool:
        """Whether the server stores the offsets of such a consumer."""
        return self.group is not None or self.name is not None

    @property
    def stores_by_itself(self) -> bool:
        """Whether the consumer commits offsets by itself."""
        return self.keeps_offsets and self.commit != "manual"


@dataclass(slots=True)
class Place:
    """One partition."""

    partition: int
    position: int
    given: int | None = None
    done: int | None = None
    stored: int | None = None
    is_paused: bool = False
    #: Whether the last poll reached the end of the partition.
    is_at_end: bool = False

    @property
    def is_to_store(self) -> bool:
        return self.done is not None and self.done != self.stored


@dataclass(slots=True)
class ConsumerProgress:
    """All partitions of a consumer, and the messages that were polled and not yet given."""

    places: dict[int, Place] = field(default_factory=dict)
    #: Of one partition, last message first.
    polled: list[Message] = field(default_factory=list)
    #: The message that the program is processing.
    last_given: Message | None = None
    _turn: int = -1

    def owned(self) -> tuple[int, ...]:
        return tuple(sorted(self.places))

    def own(self, partition: int, position: int, stored: int | None) -> None:
        """Start or restart reading a partition."""
        self.disown([partition])
        self.places[partition] = Place(partition, position, stored=stored)

    def disown(self, partitions: Iterable[int]) -> None:
        """Drop partitions, with their messages that were polled and not yet given."""
        for partition in partitions:
            self.places.pop(partition, None)
            self.drop_polled(partition)
            if self.last_given is not None and self.last_given.partition == partition:
                self.last_given = None

    def catch_up(self, partition: int, stored: int | None) -> None:
        """Update a partition from its stored offset after other members may have had it.

        If they have read further, continue after them and drop our own progress.
        """
        place = self.places[partition]
        self.drop_polled(partition)
        is_from_others = stored not in (place.stored, place.done)
        place.stored = stored
        if stored is None or not is_from_others:
            return
        place.position = max(place.position, stored + 1)
        if place.done is not None and place.done < stored:
            place.done = None
        if (
            self.last_given is not None
            and self.last_given.partition == partition
            and self.last_given.offset <= stored
        ):
            self.last_given = None

    def drop_polled(self, partition: int) -> None:
        """Discard messages that were not given yet; they are polled again later."""
        if self.polled and self.polled[-1].partition == partition:
            place = self.places.get(partition)
            if place is not None:
                place.position = self.polled[-1].offset
            self.polled = []

    def seek(self, partition: int, offset: int) -> None:
        """Continue at another offset."""
        place = self.places.get(partition)
        if place is None:
            raise InvalidFormat(f"partition {partition} is not one of {list(self.owned())}")
        self.polled = [message for message in self.polled if message.partition != partition]
        place.position = offset
        place.is_at_end = False

    def take(self, partition: int, messages: list[Message]) -> None:
        """Add messages that were polled at the partition's position."""
        place = self.places[partition]
        place.is_at_end = not messages
        if messages:
            place.position = messages[-1].offset + 1
            self.polled = messages[::-1]

    def give(self) -> Message | None:
        """The next message for the program; the one before it is done."""
        self.finish_last()
        if not self.polled:
            return None
        message = self.polled.pop()
        self.last_given = message
        place = self.places.get(message.partition)
        if place is not None:
            place.given = message.offset
        return message

    def finish_last(self) -> None:
        """The program is done with the message that it was given last."""
        if self.last_given is not None:
            place = self.places.get(self.last_given.partition)
            if place is not None:
                place.done = self.last_given.offset
            self.last_given = None

    def next_place(self) -> Place | None:
        """The partition to poll next: each in its turn, none that is paused."""
        partitions = [place.partition for place in self.places.values() if not place.is_paused]
        if not partitions:
            return None
        partitions.sort()
        self._turn = next((p for p in partitions if p > self._turn), partitions[0])
        return self.places[self._turn]

    def are_all_at_end(self) -> bool:
        """Whether the last poll of every partition found nothing; paused ones do not count."""
        return all(place.is_at_end for place in self.places.values() if not place.is_paused)

    def look_again(self) -> None:
        """Clear the end marks: partitions may have new messages."""
        for place in self.places.values():
            place.is_at_end = False

    def to_store(self) -> Iterator[Place]:
        """Partitions whose progress is not committed yet."""
        return (place for place in self.places.values() if place.is_to_store)
