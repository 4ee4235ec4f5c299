"""Read-ahead for a consumer of a partition that another shard owns.

A request to the owner takes two wake-ups, which cost more than finding the messages. A client that
polls from offset to offset will ask for the next messages too. So the owner says with its answer
where the next polls end in the same file, and these are answered without it. When half of them are
used, this shard requests more while the client is busy with what it has.

Only polls by offset that commit nothing are answered this way; all others depend on state of the
owner. What was sent ahead is valid for `FRESH_SECONDS`. It ends before the last message the owner
had, so no client takes it for the end of the partition. It is dropped when partitions change.
"""

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec

from borzoi.model.consuming import PollingStrategy
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import PromptFuture
from borzoi.partitions.operations import Poll
from borzoi.partitions.polling import Polled
from borzoi.shard.crossed_polls import CrossedPolls
from borzoi.shard.crossing import Stretch
from borzoi.storage.reading import FileRange, Reading

#: How long a stretch may be used: time for a few polls of a client that does nothing else.
FRESH_SECONDS: Final = 0.02
#: The most polls an owner sends ahead.
AHEAD_MAX: Final = 32


class _Ahead(msgspec.Struct):
    """A stretch that an owner has sent, from offset `first` to `end`."""

    stretch: Stretch
    first: int
    end: int
    until: float
    #: That of the polls when it was requested.
    generation: int
    #: The offset from which on the next stretch is to be requested; `end` when it was.
    ask_at: int


NOTHING: Final = _Ahead(Stretch(0, 1, 0, [], 0), 0, 0, 0.0, -1, 0)


class ReadingAhead:
    """The polls of one consumer, which follow `poll` and differ from it in their offset."""

    def __init__(
        self,
        polls: CrossedPolls,
        owner: int,
        namespace: Namespace,
        poll: Poll,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._polls = polls
        self._owner = owner
        self._namespace = namespace
        self._poll = poll
        self._clock = clock
        #: Where the last poll ended.
        self._next = poll.strategy.value + poll.count
        #: How many polls the owner may send ahead: twice as many after each request that goes on
        #: where the last poll ended, half as many after any other.
        self._welcome = 1
        self._ahead = NOTHING
        #: What follows it, if it has arrived.
        self._later = NOTHING

    def known(self, offset: int) -> Polled | None:
        """Return the answer to the poll at an offset if the owner has sent it ahead."""
        ahead = self._ahead
        if offset >= ahead.end:
            self._ahead = ahead = self._later
        if not ahead.first <= offset < ahead.end or ahead.generation != self._polls.generation:
            return None
        stretch = ahead.stretch
        count = stretch.count
        number, rest = divmod(offset - ahead.first, count)
        if rest:
            return None
        if ahead.until < self._clock():
            # The client is too slow to use them all: send less ahead from here on.
            self._ahead = self._later = NOTHING
            self._welcome = 1
            return None
        file = self._polls.file_of(self._owner, stretch.number)
        if file is None:
            return None  # deleted
        self._next = offset + count
        if offset >= ahead.ask_at:
            ahead.ask_at = ahead.end
            self._request(ahead.end, self._keep_for_later, goes_on=True)
        start, end = stretch.bounds[number], stretch.bounds[number + 1]
        reading = Reading(offset, count, [FileRange(file, start, end - start)])
        return Polled(reading, stretch.current_offset)

    def ask(self, offset: int, make: Callable[[Polled], Any]) -> PromptFuture[Any]:
        """Send the poll at an offset to the owner; return a future of the answer, passed through
        `make`."""

        def answered(polled: Polled, ahead: _Ahead | None) -> Any:
            reading = polled.reading
            if reading.count:
                self._next = reading.last_offset + 1
            if ahead is not None:
                self._ahead = ahead
            return make(polled)

        return self._request(offset, answered, goes_on=offset == self._next)

    def _keep_for_later(self, _: Polled, ahead: _Ahead | None) -> None:
        if ahead is not None:
            self._later = ahead

    def _request(
        self, offset: int, make: Callable[[Polled, _Ahead | None], Any], *, goes_on: bool
    ) -> PromptFuture[Any]:
        welcome = self._welcome * 2 if goes_on else self._welcome // 2
        self._welcome = welcome = max(1, min(welcome, AHEAD_MAX))
        generation = self._polls.generation

        def arrived(polled: Polled, stretch: Stretch | None) -> Any:
            return make(polled, None if stretch is None else self._received(stretch, generation))

        poll = msgspec.structs.replace(self._poll, strategy=PollingStrategy.offset(offset))
        welcome = 0 if welcome == 1 else welcome
        return self._polls.ask(self._owner, self._namespace, poll, arrived, welcome)

    def _received(self, stretch: Stretch, generation: int) -> _Ahead:
        first, count, polls = stretch.first_offset, stretch.count, len(stretch.bounds) - 1
        end, ask_at = first + polls * count, first + polls // 2 * count
        return _Ahead(stretch, first, end, self._clock() + FRESH_SECONDS, generation, ask_at)
