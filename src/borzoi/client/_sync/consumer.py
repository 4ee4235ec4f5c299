# Made by tools/unasync.py from src/borzoi/client/_async/consumer.py: edit that one.
"""Consumers: messages of a topic one by one, alone or sharing its partitions with a group."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, TypeVar

from borzoi.client._colours import sleep, tell
from borzoi.client._sync.sharing import Both, Share
from borzoi.client.codecs import Codec, UndecodableMessage
from borzoi.client.consuming import PAUSE_SECONDS_MIN, Begin, ConsumerProgress, Consuming, Place
from borzoi.client.messages import Message, Polled, ValueMessage
from borzoi.client.naming import TopicName, topic_of
from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import ClientClosed, InvalidFormat, MemberNotFound

M = TypeVar("M", bound=Message)


class Consumer(Generic[M]):
    """Reads the messages of one topic, in order within each partition.

    >>> for message in client.consumer("orders/events", group="billing"):  # doctest: +SKIP
    ...     print(message.text())

    A message counts as processed when the next one is requested, so a program that fails while
    processing a message gets it again. `commit` says when its offset is stored: after "each"
    message, after each polled "batch", at most once an "interval", or only by `commit()`
    ("manual"). After a lost connection the consumer continues where it was. `with`, or
    `close`, commits processed messages and leaves the group at once; otherwise the other members
    wait until the connection ends.
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
        self._progress = ConsumerProgress()
        self._share = Share(
            client,
            self._topic,
            consuming,
            self._progress,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        self._committed_at = time.monotonic()
        self._pause = PAUSE_SECONDS_MIN
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
        """Return the next messages, all of one partition; empty at the end if `follow` is off.

        All of them count as processed when the next batch is requested.
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
        """Call the handler with each message, which counts as processed when the call returns.

        Stops when the handler raises, or at the last message if `follow` is off.
        """
        while (message := self._next()) is not None:
            tell(handler, message)

    def commit(self, message: Message | None = None) -> None:
        """Store the offset of this message as processed; without one, the offset of the last
        message handed out of each partition."""
        if not self._how.keeps_offsets:
            raise InvalidFormat("a consumer without a group or a name has no place for offsets")
        if message is None:
            self._progress.finish_last()
        else:
            place = self._progress.places.get(message.partition)
            if place is not None:
                place.done = message.offset
        self._store()

    def seek(self, partition: int, to: Begin) -> None:
        """Continue at another place in a partition that this consumer reads."""
        self._share.look()
        self._progress.seek(partition, self._share.offset_at(partition, to))

    def pause(self, *partitions: int) -> None:
        """Stop polling these partitions until `resume`; all of them without an argument."""
        for place in self._named(partitions):
            place.is_paused = True
            self._progress.drop_polled(place.partition)

    def resume(self, *partitions: int) -> None:
        """Poll paused partitions again; all of them without an argument."""
        for place in self._named(partitions):
            place.is_paused = False

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions that this consumer reads now."""
        return self._progress.owned()

    def position(self, partition: int) -> int | None:
        """The offset of the next message of a partition; None if this consumer does not read it."""
        place = self._progress.places.get(partition)
        if place is None:
            return None
        polled = self._progress.polled
        return polled[-1].offset if polled and polled[-1].partition == partition else place.position

    def close(self) -> None:
        """Commit processed messages, unless commits are manual, and leave the group."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._share.is_open:
            return
        try:
            if self._how.stores_by_itself:
                self._store()
        finally:
            self._share.leave()

    def __enter__(self) -> Self:
        self._share.look()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- polling --------------------------------------------------------------------------------

    def _next(self) -> M | None:
        # A call may end at every await, by an exception or by cancellation. Messages are
        # handed out only after the last await, so none are lost.
        progress = self._progress
        progress.finish_last()
        if self._how.stores_by_itself:
            self._store_if_due(is_batch_over=not progress.polled)
        while not progress.polled:
            if not self._poll():
                return None
        message = progress.give()
        assert message is not None
        return self._decoded(message)

    def _poll(self) -> bool:
        """Poll once, or pause if the last polls found nothing; False at the end without
        `follow`."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed; create a new one")
        self._share.look()
        place = self._progress.next_place()
        if place is not None and self._share.is_known:
            self._poll_place(place)
        if self._progress.polled:
            self._pause = PAUSE_SECONDS_MIN
        elif self._progress.are_all_at_end():
            if not self._how.follow:
                self._progress.look_again()
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
                **self._share.identity,
            )
        except MemberNotFound:
            self._share.rejoin()
            return
        if not self._share.is_known:
            # The answer came on a connection whose partitions are not known yet.
            return
        is_ours = polled.partition == place.partition
        if is_ours and not polled and place.position > polled.current_offset + 1:
            if self._is_shorter(place, polled):
                # The partition was purged: its offsets restart at 0.
                position = self._share.offset_at(place.partition, self._how.begin)
                self._progress.own(place.partition, position, stored=None)
                return
            is_ours = self._how.group is None
        if is_ours:
            self._progress.take(place.partition, polled.messages)
        else:
            # Another member has it now.
            place.is_at_end = False
            self._share.forget()

    def _is_shorter(self, place: Place, polled: Polled) -> bool:
        """Whether the partition ends before the place, as an empty answer seems to say."""
        if polled.current_offset:
            return True
        # An empty HTTP answer does not say where the partition ends, and a member that polls a
        # partition of another member gets the answer of an empty partition 0.
        topic = self._client.get_topic(self._topic)
        partitions = () if topic is None else topic.partitions
        ends = [each.current_offset for each in partitions if each.id == place.partition]
        return bool(ends) and place.position > ends[0] + 1

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

    def _named(self, partitions: Iterable[int]) -> list[Place]:
        places = self._progress.places
        return [places[each] for each in partitions or places if each in places]

    def _store_if_due(self, *, is_batch_over: bool) -> None:
        commit = self._how.commit
        if commit == "interval":
            is_due = time.monotonic() - self._committed_at >= self._how.commit_interval
        else:
            is_due = is_batch_over or commit == "each"
        if is_due:
            self._store()

    def _store(self) -> None:
        self._committed_at = time.monotonic()
        self._share.store()
