"""Where a client's sends go and its polls come from, remembered.

A producer says the same about every batch: the same stream, topic and partitioning, as the same
user; so does a consumer about every poll. Resolving and authorising that again gives the same
answer until the metadata changes, so the answer is kept by the bytes that asked for it. On small
sends that was a fifth of their cost, on polls half of what comes before the first byte leaves.
"""

from struct import Struct
from typing import Final

import msgspec

from borzoi.handlers.call import Call
from borzoi.handlers.messages import chosen_partition
from borzoi.handlers.sessions import Session
from borzoi.metadata import queries
from borzoi.metadata.state import Topic
from borzoi.model.consuming import ConsumerKind
from borzoi.model.identifiers import consumer_key
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning, PartitioningKind
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.commands.messages import (
    POLL_MOVING,
    SEND_METADATA_BYTES_MAX,
    PollMessages,
    SendMessages,
)
from borzoi.protocol.contract import encode_payload
from borzoi.records.batch import SMALL, Batch, receive, receive_at
from borzoi.records.layouts import Layouts, Place

#: A server has few clients that differ in all of these. One that sends by ever new keys fills this;
#: then all are forgotten, and those who come again are learned again.
ROUTES_MAX: Final = 10_000

#: A length that is larger is a mistake, and not worth a copy of what it claims to measure.
METADATA_LENGTH_MAX: Final = SEND_METADATA_BYTES_MAX - 4

_U32 = Struct("<I")


class Route(msgspec.Struct, frozen=True):
    """A send that was resolved and allowed once."""

    stream_id: int
    topic: Topic
    partitioning: Partitioning
    #: Where it goes, when that is the same each time.
    namespace: Namespace | None

    def chosen(self, call: Call) -> Namespace:
        """Where it goes this time, when that differs."""
        partition_id = chosen_partition(self.partitioning, self.stream_id, self.topic, call)
        return Namespace(self.stream_id, self.topic.id, partition_id)


class SendRoutes:
    """The sends of one shard, all forgotten when the metadata changes."""

    def __init__(self) -> None:
        self._routes: dict[tuple[int | None, bytes], Route] = {}
        self._revision = -1
        self._layouts = Layouts()

    def find(
        self, session: Session, payload: memoryview, revision: int, at: int
    ) -> tuple[Route, Batch] | None:
        """The route of a send that was made before, and its batch; None for any other.

        `at` is where the payload lies in the pool's memory, if it lies there.
        Raises what is wrong with the batch, as the long way would.
        """
        if revision != self._revision:
            self._routes.clear()
            self._revision = revision
            return None
        size = len(payload)
        if size < 8:
            return None
        (length,) = _U32.unpack_from(payload)
        if length > METADATA_LENGTH_MAX or length + 4 > size:
            return None
        route = self._routes.get((session.user_id, bytes(payload[4:length])))
        if route is None:
            return None
        (count,) = _U32.unpack_from(payload, length)
        indexes_start = 4 + length
        messages_start = indexes_start + count * INDEX_ENTRY_BYTES
        if messages_start > size:
            return None
        messages, indexes = payload[messages_start:], payload[indexes_start:messages_start]
        if at < 0 or count < SMALL:
            return route, receive(messages, indexes, count)
        place = Place(at + messages_start, len(messages), count)
        return route, receive_at(self._layouts, place, messages, indexes)

    def remember(self, session: Session, payload: memoryview, call: Call) -> None:
        """Keep the route of a send that was just allowed."""
        request = SendMessages.decode(Reader(payload))
        written = Writer()
        request.encode_metadata(written)
        (length,) = _U32.unpack_from(payload)
        if len(written) != 4 + length:
            # Metadata with bytes behind its last field has its count somewhere else.
            return
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        stream = queries.stream(call.state, request.stream_id)
        topic = queries.topic_of(stream, request.topic_id)
        fixed = request.partitioning.kind is PartitioningKind.PARTITION_ID
        namespace = (
            Namespace(stream.id, topic.id, request.partitioning.partition_id) if fixed else None
        )
        self._routes[session.user_id, bytes(payload[4:length])] = Route(
            stream.id, topic, request.partitioning, namespace
        )


class PollRoute(msgspec.Struct, frozen=True):
    """A poll that was resolved and allowed once."""

    namespace: Namespace
    consumer_id: int


class PollRoutes:
    """The polls of one shard, all forgotten when the metadata changes.

    Only those of single consumers: whose turn it is in a group is asked each time.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[int | None, bytes], PollRoute] = {}
        self._revision = -1

    def find(self, session: Session, payload: memoryview, revision: int) -> PollRoute | None:
        """The route of a poll that was made before, from wherever in the log."""
        if revision != self._revision:
            self._routes.clear()
            self._revision = revision
            return None
        return self._routes.get((session.user_id, bytes(payload[: -POLL_MOVING.size])))

    def remember(
        self, session: Session, payload: memoryview, request: PollMessages, call: Call
    ) -> None:
        """Keep the route of a poll that was just allowed."""
        if request.consumer.kind is not ConsumerKind.CONSUMER:
            return
        if encode_payload(request) != payload:
            # Whoever writes a poll in another way may have its moving part somewhere else.
            return
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        stream = queries.stream(call.state, request.stream_id)
        topic = queries.topic_of(stream, request.topic_id)
        self._routes[session.user_id, bytes(payload[: -POLL_MOVING.size])] = PollRoute(
            Namespace(stream.id, topic.id, request.partition_id or 0),
            consumer_key(request.consumer.id),
        )
