"""Requests that poll messages; by default from the start of the first partition of s/t."""

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.protocol.commands.messages import PollMessages

READER = Consumer(ConsumerKind.CONSUMER, 1)
FIRST = PollingStrategy.first()


def poll_of(
    count: int,
    *,
    topic: str = "t",
    partition: int = 0,
    strategy: PollingStrategy = FIRST,
    commit: bool = False,
) -> PollMessages:
    """A poll of at most this many messages by a consumer without a group."""
    return PollMessages(READER, "s", topic, partition, strategy, count, commit)
