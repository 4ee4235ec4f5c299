import pytest
from tests.support.embedded import EmbeddedServer, with_topic

from borzoi.handlers.consumer_quota import ConsumerQuota
from borzoi.metadata.effects import (
    DeletedGroup,
    DeletedStream,
    DeletedTopic,
    Effect,
    PurgedStream,
    PurgedTopic,
)
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import LimitReached
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.topics import PurgeTopic


def test_one_user_takes_only_its_own_share() -> None:
    quota = ConsumerQuota(2)
    for consumer_id in (1, 2, 1, 2):
        quota.admit(7, 0, 0, consumer_id)
    with pytest.raises(LimitReached, match="user 7 stores offsets of 2 consumers in topic 0"):
        quota.admit(7, 0, 0, 3)
    quota.admit(8, 0, 0, 3)
    quota.admit(7, 0, 1, 3)
    quota.release(7, 0, 0, 1)
    quota.release(9, 9, 9, 9)
    quota.admit(7, 0, 0, 3)


@pytest.mark.parametrize(
    ("effect", "forgotten"),
    [
        (DeletedTopic(0, 5, (0,)), True),
        (PurgedTopic(0, 5, (0,)), True),
        (DeletedStream(0, ((4, (0,)), (5, (0,)))), True),
        (PurgedStream(0, ((5, (0,)),)), True),
        (DeletedTopic(0, 6, (0,)), False),
        (DeletedGroup(0, 5, 0, (0,)), False),
    ],
)
def test_what_ends_the_offsets_ends_the_count(effect: Effect, forgotten: bool) -> None:
    quota = ConsumerQuota(1)
    quota.admit(7, 0, 5, 1)
    quota.carry_out(effect)
    if forgotten:
        quota.admit(7, 0, 5, 2)
    else:
        with pytest.raises(LimitReached):
            quota.admit(7, 0, 5, 2)


async def test_stores_and_committing_polls_count_and_other_polls_do_not(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server, messages=1)
    monkeypatch.setattr(server.services.consumer_quota, "_most", 2)
    root = server.root()

    def poll(name: str, *, commit: bool) -> PollMessages:
        consumer = Consumer(ConsumerKind.CONSUMER, name)
        return PollMessages(consumer, "s", "t", 0, PollingStrategy.first(), 1, commit)

    first, third = (Consumer(ConsumerKind.CONSUMER, name) for name in ("first", "third"))
    await root.call(StoreConsumerOffset(first, "s", "t", 0, 0))
    await root.call(poll("second", commit=True))
    for refused in (StoreConsumerOffset(third, "s", "t", 0, 0), poll("third", commit=True)):
        with pytest.raises(LimitReached):
            await root.call(refused)
    await root.call(poll("third", commit=False))
    await root.call(DeleteConsumerOffset(first, "s", "t", 0))
    await root.call(StoreConsumerOffset(third, "s", "t", 0, 0))
    await root.call(PurgeTopic("s", "t"))
    await root.call(poll("another", commit=True))
