# Made by tools/unasync.py from src/borzoi/client/_async/consumer.py: edit that one.
"""Consumers: messages of a topic one by one, alone or sharing its partitions with a group."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar

from borzoi.client._colours import sleep, tell
from borzoi.client._sync.administration import Administration
from borzoi.client._sync.messaging import Messaging
from borzoi.client.codecs import Codec, UndecodableMessage
from borzoi.client.consuming import (
    PAUSE_SECONDS_MIN,
    Commit,
    ConsumerProgress,
    Place,
    checked_commit,
)
from borzoi.client.messages import Message, ValueMessage
from borzoi.client.naming import TopicName, topic_of
from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import (
    ClientClosed,
    ConsumerNotResolved,
    GroupNameTaken,
    GroupNotFound,
    InvalidFormat,
    MemberNotFound,
)
from borzoi.model.identifiers import Identifier
from borzoi.protocol.commands.groups import GroupMember

M = TypeVar("M", bound=Message)

#: Where to begin in a partition for which the server keeps no offset.
Begin = Literal["earliest", "latest"] | int | datetime

#: How often a member of a group looks whether the partitions are shared differently.
LOOK_SECONDS: Final = 0.5


class Both(Administration, Messaging):
    """What a consumer needs of a client: both kinds of commands."""


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
        checked_commit(self.commit)
        if self.group is not None and (self.name is not None or self.partitions is not None):
            raise InvalidFormat("a member of a group has neither a name nor partitions of its own")
        if self.begin not in ("earliest", "latest") and not isinstance(self.begin, int | datetime):
            raise InvalidFormat(
                f"cannot begin at {self.begin!r}: earliest, latest, an offset and a datetime are"
                " allowed"
            )
        if self.batch_messages < 1:
            raise InvalidFormat(f"batch_messages is {self.batch_messages}; at least 1 is allowed")


class Consumer(Generic[M]):
    """Reads the messages of one topic, in order within each partition.

    >>> for message in client.consumer("orders/events", group="billing"):  # doctest: +SKIP
    ...     print(message.text())

    A message counts as dealt with when the next one is asked for, so a program that fails in the
    middle of one gets it again. `commit` says when that is stored: after "each" message, after
    each "batch" that was polled, at most once an "interval", or by `commit()` only ("manual").
    After a lost connection it goes on where it was. `with`, or `close`, stores what was
    dealt with and leaves the group at once; otherwise the others wait until the connection ends.
    """

    def __init__(
        self,
        client: Both,
        topic: TopicName,
        codec: Codec[Any] | None,
        consuming: Consuming,
        *,
        on_assigned: Callable[[tuple[int, ...]], Any] | None = None,
        on_revoked: Callable[[tuple[int, ...]], Any] | None = None,
    ) -> None:
        self._client = client
        self._topic = topic_of(topic)
        self._decode = None if codec is None else codec.decode
        self._how = consuming
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._progress = ConsumerProgress()
        self._keeps_offsets = consuming.group is not None or consuming.name is not None
        #: The session that the partitions were found out on; another one may have others.
        self._generation = -1
        self._members: tuple[GroupMember, ...] = ()
        self._looked_at = 0.0
        self._committed_at = time.monotonic()
        self._pause = PAUSE_SECONDS_MIN
        self._is_open = False
        self._is_closed = False

    # ---- reading --------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> M:
        message = self._next()
        if message is None:
            raise StopIteration
        return message

    def batch(self) -> list[M]:
        """The next messages, all of one partition; none when there are none and `follow` is off.

        All of them count as dealt with when the next batch is asked for.
        """
        first = self._next()
        if first is None:
            return []
        messages = [first]
        progress = self._progress
        while progress.polled:
            message = progress.give()
            assert message is not None
            messages.append(self._decoded(message))
        return messages

    def run(self, handler: Callable[[M], Any]) -> None:
        """Call the handler with each message; one counts as dealt with when it has returned.

        Ends with what the handler raises, and when there is nothing more and `follow` is off.
        """
        while (message := self._next()) is not None:
            tell(handler, message)

    def commit(self, message: Message | None = None) -> None:
        """Store that everything up to this message of its partition was dealt with; without one,
        everything that was handed out."""
        if not self._keeps_offsets:
            raise InvalidFormat("a consumer without a group or a name has no place for offsets")
        if message is None:
            self._progress.finish_last()
        else:
            place = self._progress.places.get(message.partition)
            if place is not None:
                place.done = message.offset
        self._store()

    def seek(self, partition: int, to: Begin) -> None:
        """Go on somewhere else in a partition that this consumer reads."""
        self._look()
        self._progress.seek(partition, self._offset_at(partition, to))

    def pause(self, *partitions: int) -> None:
        """Leave partitions out until `resume`, all without an argument."""
        for place in self._named(partitions):
            place.is_paused = True
            self._progress.drop_polled(place.partition)

    def resume(self, *partitions: int) -> None:
        """Read partitions again, all without an argument."""
        for place in self._named(partitions):
            place.is_paused = False

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions that this consumer reads now."""
        return self._progress.owned()

    def position(self, partition: int) -> int | None:
        """The offset of the next message of a partition; None when it is not read here."""
        place = self._progress.places.get(partition)
        if place is None:
            return None
        polled = self._progress.polled
        return polled[-1].offset if polled and polled[-1].partition == partition else place.position

    def close(self) -> None:
        """Store what was dealt with, unless that is done by hand, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_open:
            return
        try:
            if self._keeps_offsets and self._how.commit != "manual":
                self._store()
        finally:
            if self._how.group is not None:
                try:
                    self._client.leave_consumer_group(self._topic, self._how.group)
                except (MemberNotFound, GroupNotFound):
                    pass

    def __enter__(self) -> Self:
        self._look()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- polling --------------------------------------------------------------------------------

    def _next(self) -> M | None:
        # A call may end at every await, by an exception or because its task is cancelled. What is
        # handed out is taken when nothing is left to wait for, so nothing is lost then.
        progress = self._progress
        progress.finish_last()
        if self._how.commit != "manual" and self._keeps_offsets:
            self._store_if_due(is_batch_over=not progress.polled)
        while not progress.polled:
            if not self._poll():
                return None
        message = progress.give()
        assert message is not None
        return self._decoded(message)

    def _poll(self) -> bool:
        """One poll, or a pause when the last ones found nothing; False when all is read and nobody
        waits for more."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed; make a new one")
        self._look()
        place = self._progress.next_place()
        if place is not None:
            self._poll_place(place)
        if self._progress.polled:
            self._pause = PAUSE_SECONDS_MIN
        elif self._progress.are_all_at_end():
            if not self._how.follow:
                return False
            sleep(self._pause)
            self._pause = min(2 * self._pause, self._how.poll_interval)
            if self._how.commit == "interval":
                self._store_if_due(is_batch_over=False)
        return True

    def _poll_place(self, place: Place) -> None:
        try:
            polled = self._client.poll_messages(
                self._topic,
                partition=place.partition,
                start=PollingStrategy.offset(place.position),
                count=self._how.batch_messages,
                **self._identity,
            )
        except MemberNotFound:
            assert self._how.group is not None
            self._client.join_consumer_group(self._topic, self._how.group)
            self._generation = -1
            return
        if self._generation != self._client._session.generation:
            # The answer came on a connection whose partitions are not known yet.
            return
        if polled.partition != place.partition:
            # Another member has it now.
            self._looked_at = 0.0
            self._members = ()
            return
        if not polled and place.position > polled.current_offset + 1:
            # The partition was purged: its offsets begin again.
            place.position = self._offset_at(place.partition, self._how.begin)
            place.given = place.done = place.stored = None
            place.is_at_end = False
            return
        self._progress.take(place.partition, polled.messages)

    def _decoded(self, message: Message) -> M:
        if self._decode is None:
            return message  # type: ignore[return-value]
        try:
            value = self._decode(message.payload)
        except ValueError as fault:
            raise UndecodableMessage(
                f"cannot read message {message.offset} of partition {message.partition}: {fault}",
                message,
            ) from fault
        return ValueMessage.of(message, value)  # type: ignore[return-value]

    # ---- partitions -----------------------------------------------------------------------------

    @property
    def _identity(self) -> dict[str, Any]:
        if self._how.group is not None:
            return {"group": self._how.group}
        return {"consumer": 0 if self._how.name is None else self._how.name}

    def _named(self, partitions: Iterable[int]) -> list[Place]:
        places = self._progress.places
        return [places[each] for each in partitions or places if each in places]

    def _look(self) -> None:
        """Find out which partitions to read: at the beginning, on a new connection, and for a
        member of a group every now and then."""
        generation = self._client._session.generation
        is_known = self._is_open and generation == self._generation
        if is_known and self._how.group is None:
            return
        now = time.monotonic()
        if is_known and now - self._looked_at < LOOK_SECONDS:
            return
        if not self._is_open and self._how.group is not None:
            self._join(self._how.group)
        self._is_open = True
        members: tuple[GroupMember, ...] = ()
        if self._how.group is not None:
            members, wanted = self._assigned(self._how.group, is_known=is_known)
        else:
            wanted = self._chosen()
        if wanted is not None:
            assigned = self._own(wanted, is_known=is_known)
        if generation != self._client._session.generation:
            # There is another connection since we began to look: look again.
            return
        self._generation, self._members, self._looked_at = generation, members, now
        if wanted is not None and assigned:
            tell(self._on_assigned, assigned)

    def _join(self, group: Identifier) -> None:
        if isinstance(group, str):
            try:
                self._client.create_consumer_group(self._topic, group)
            except GroupNameTaken:
                pass
        self._client.join_consumer_group(self._topic, group)

    def _chosen(self) -> set[int]:
        if self._how.partitions is not None:
            return set(self._how.partitions)
        return set(range(self._client._partitions_count(self._topic)))

    def _assigned(
        self, group: Identifier, *, is_known: bool
    ) -> tuple[tuple[GroupMember, ...], set[int] | None]:
        """The members of the group, and the partitions that this one has; None for those when
        nothing has changed."""
        details = self._client.get_consumer_group(self._topic, group)
        if details is None:
            raise GroupNotFound(f"the group {group!r} was deleted")
        if is_known and details.members == self._members:
            return details.members, None
        # A poll without a partition goes to each of ours in turn, and its answer names it.
        found: set[int] = set()
        for _ in range(details.partitions_count):
            polled = self._client.poll_raw(self._topic, group=group, count=0)
            if polled.partition_id in found:
                break
            found.add(polled.partition_id)
        if found == {0} and not any(0 in member.partitions for member in details.members):
            found.clear()
        return details.members, found

    def _own(self, wanted: set[int], *, is_known: bool) -> tuple[int, ...]:
        """Read these partitions and no others; those that are new."""
        progress = self._progress
        revoked = tuple(sorted(progress.places.keys() - wanted))
        if revoked:
            tell(self._on_revoked, revoked)
            if self._keeps_offsets and self._how.commit != "manual":
                self._store()
            progress.disown(revoked)
        if not is_known:
            # Others may have read on while we were away.
            for partition in progress.owned():
                self._catch_up(progress.places[partition])
        assigned = tuple(sorted(wanted - progress.places.keys()))
        begins = []
        for partition in assigned:
            stored = self._stored_offset(partition)
            position = self._offset_at(partition, self._how.begin) if stored is None else stored + 1
            begins.append((partition, position, stored))
        for begin in begins:
            progress.own(*begin)
        return assigned

    def _catch_up(self, place: Place) -> None:
        self._progress.drop_polled(place.partition)
        stored = self._stored_offset(place.partition)
        if stored is not None and stored + 1 > place.position:
            place.position = stored + 1
        place.stored = stored

    def _offset_at(self, partition: int, where: Begin) -> int:
        """The offset that a place in a partition stands for now."""
        if isinstance(where, int):
            return where
        if where == "earliest":
            return 0
        if isinstance(where, datetime):
            found = self._client.poll_messages(
                self._topic, partition=partition, start=where, count=1, **self._identity
            )
            if found:
                return found[0].offset
        last = self._client.poll_messages(
            self._topic, partition=partition, start="last", count=1, **self._identity
        )
        return last[0].offset + 1 if last else 0

    # ---- offsets --------------------------------------------------------------------------------

    def _stored_offset(self, partition: int) -> int | None:
        if not self._keeps_offsets:
            return None
        stored = self._client.get_consumer_offset(
            self._topic, partition=partition, **self._identity
        )
        return None if stored is None else stored.stored_offset

    def _store(self) -> None:
        self._committed_at = time.monotonic()
        for place in list(self._progress.to_store()):
            done = place.done
            assert done is not None
            try:
                self._client.store_consumer_offset(
                    self._topic, done, partition=place.partition, **self._identity
                )
            except (ConsumerNotResolved, MemberNotFound):
                # Another member has the partition now, and goes on from what it finds.
                pass
            place.stored = done

    def _store_if_due(self, *, is_batch_over: bool) -> None:
        commit = self._how.commit
        if commit == "interval":
            is_due = time.monotonic() - self._committed_at >= self._how.commit_interval
        else:
            is_due = is_batch_over or commit == "each"
        if is_due and self._keeps_offsets:
            self._store()
