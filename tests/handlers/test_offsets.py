import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer
from tests.support.sends import send_of

from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import (
    ConsumerNotResolved,
    ConsumerOffsetNotFound,
    GroupNotFound,
    InvalidOffset,
    MemberNotFound,
    PartitionNotFound,
)
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic

NAMED = Consumer(ConsumerKind.CONSUMER, "my-consumer")
HASHED = Consumer(ConsumerKind.CONSUMER, 2115191887)
GROUP = Consumer(ConsumerKind.GROUP, "g")


@pytest.fixture(autouse=True)
async def messages(root: EmbeddedClient) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    await root.call(send_of(*[b"m"] * 3))


async def test_a_stored_offset_is_found_by_name_and_by_the_hash_of_it(root: EmbeddedClient) -> None:
    assert await root.call(GetConsumerOffset(NAMED, "s", "t")) is None
    await root.call(StoreConsumerOffset(NAMED, "s", "t", None, 2))
    await root.call(StoreConsumerOffset(NAMED, "s", "t", 0, 1))
    found = await root.call(GetConsumerOffset(HASHED, "s", "t", 0))
    assert (found.partition_id, found.current_offset, found.stored_offset) == (0, 2, 1)
    await root.call(DeleteConsumerOffset(NAMED, "s", "t", 0))
    with pytest.raises(ConsumerOffsetNotFound):
        await root.call(DeleteConsumerOffset(NAMED, "s", "t", 0))


async def test_offsets_that_no_message_has_are_refused(root: EmbeddedClient) -> None:
    with pytest.raises(InvalidOffset):
        await root.call(StoreConsumerOffset(NAMED, "s", "t", 0, 3))
    with pytest.raises(InvalidOffset):
        await root.call(StoreConsumerOffset(NAMED, "s", "t", 1, 0))
    with pytest.raises(PartitionNotFound):
        await root.call(StoreConsumerOffset(NAMED, "s", "t", 9, 0))


async def test_a_group_stores_for_its_members_and_is_seen_by_all(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    with pytest.raises(GroupNotFound):
        await root.call(StoreConsumerOffset(GROUP, "s", "t", 0, 1))
    await root.call(CreateConsumerGroup("s", "t", "g"))
    with pytest.raises(MemberNotFound):
        await root.call(StoreConsumerOffset(GROUP, "s", "t", 0, 1))
    first, second = server.root(), server.root()
    await first.call(JoinConsumerGroup("s", "t", "g"))
    await second.call(JoinConsumerGroup("s", "t", "g"))
    await first.call(StoreConsumerOffset(GROUP, "s", "t", None, 1))
    with pytest.raises(ConsumerNotResolved):
        await second.call(StoreConsumerOffset(GROUP, "s", "t", 0, 1))
    assert (await root.call(GetConsumerOffset(GROUP, "s", "t", 0))).stored_offset == 1
