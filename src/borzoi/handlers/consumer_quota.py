"""How many consumers one user may name in one topic.

A consumer is any name that a client chooses, and its offset is a file in each partition. A user
with only the permission to poll could fill the disk with them, so the consumers of each user are
counted per topic since the start of the server.
"""

from borzoi.metadata.effects import DeletedStream, DeletedTopic, Effect, PurgedStream, PurgedTopic
from borzoi.model.errors import LimitReached
from borzoi.model.limits import CONSUMERS_PER_TOPIC_AND_USER_MAX


class ConsumerQuota:
    """The consumers in use, by topic and user."""

    def __init__(self, most: int = CONSUMERS_PER_TOPIC_AND_USER_MAX) -> None:
        self._most = most
        self._used: dict[tuple[int, int], dict[int | None, set[int]]] = {}

    def admit(self, user_id: int | None, stream_id: int, topic_id: int, consumer_id: int) -> None:
        """Call before an offset is stored; `LimitReached` above the limit."""
        users = self._used.get((stream_id, topic_id))
        if users is None:
            users = self._used[stream_id, topic_id] = {}
        consumers = users.get(user_id)
        if consumers is None:
            consumers = users[user_id] = set()
        if consumer_id in consumers:
            return
        if len(consumers) >= self._most:
            raise LimitReached(
                f"user {user_id} stores offsets of {self._most} consumers in topic {topic_id} of"
                f" stream {stream_id}, which is as many as one user may; delete those of consumers"
                " that are gone"
            )
        consumers.add(consumer_id)

    def release(self, user_id: int | None, stream_id: int, topic_id: int, consumer_id: int) -> None:
        """The consumer's offset was deleted."""
        self._used.get((stream_id, topic_id), {}).get(user_id, set()).discard(consumer_id)

    def carry_out(self, effect: Effect) -> None:
        """Offsets go with their topic, and when it is purged."""
        match effect:
            case DeletedTopic(stream_id, topic_id) | PurgedTopic(stream_id, topic_id):
                self._used.pop((stream_id, topic_id), None)
            case DeletedStream(stream_id, topics) | PurgedStream(stream_id, topics):
                for topic_id, _ in topics:
                    self._used.pop((stream_id, topic_id), None)
            case _:
                pass
