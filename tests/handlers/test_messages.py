import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer
from tests.support.polls import READER
from tests.support.sends import send_of

from borzoi.metadata import queries
from borzoi.metadata.state import Stream, Topic
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    InvalidMessagesCount,
    MemberNotFound,
    NoPartitions,
    PartitionNotFound,
    TopicNotFound,
)
from borzoi.model.identifiers import Identifier
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.groups import CreateConsumerGroup, GetConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.records.message import decode_messages

GROUP = Consumer(ConsumerKind.GROUP, "billing")


def send(partitioning: Partitioning, *payloads: bytes, topic: str = "t") -> SendMessages:
    return send_of(*payloads, topic=topic, partitioning=partitioning)


def poll(
    partition_id: int | None = 0, *, consumer: Consumer = READER, commit: bool = False
) -> PollMessages:
    return PollMessages(consumer, "s", "t", partition_id, PollingStrategy.next(), 10, commit)


async def payloads(client: EmbeddedClient, request: PollMessages) -> list[bytes]:
    polled = await client.call(request)
    return [message.payload for message in decode_messages(polled.messages)]


@pytest.fixture(autouse=True)
async def topic(root: EmbeddedClient) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 3))


async def test_what_is_sent_can_be_polled_in_order(root: EmbeddedClient) -> None:
    await root.call(send(Partitioning.partition(1), b"one", b"two"))
    await root.call(send(Partitioning.partition(1), b"three"))
    assert await payloads(root, poll(1)) == [b"one", b"two", b"three"]


async def test_a_performed_send_resolves_its_topic_once(
    root: EmbeddedClient, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As HTTP sends: without the prepared requests of the binary protocol."""
    resolved: list[Topic] = []
    resolve = queries.topic_of

    def counting(stream: Stream, topic_id: Identifier) -> Topic:
        resolved.append(resolve(stream, topic_id))
        return resolved[-1]

    monkeypatch.setattr(queries, "topic_of", counting)
    request = send(Partitioning.partition(1), b"one")
    assert server.dispatcher.perform(root.session, request) is None
    assert [topic.name for topic in resolved] == ["t"]
    assert await payloads(root, poll(1)) == [b"one"]


async def test_balanced_sends_take_turns_and_keys_stay_together(root: EmbeddedClient) -> None:
    for number in range(4):
        await root.call(send(Partitioning.balanced(), b"%d" % number))
    assert await payloads(root, poll(0)) == [b"0", b"3"]
    for _ in range(2):
        await root.call(send(Partitioning.key(b"key-1"), b"keyed"))
    # key-1 hashes to partition 1 of 3.
    assert await payloads(root, poll(1)) == [b"1", b"keyed", b"keyed"]


async def test_a_remembered_route_ends_with_the_metadata_it_was_made_of(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(send(Partitioning.key(b"key-1"), b"a"))
    await root.call(CreatePartitions("s", "t", 2))
    # With 5 partitions the same key goes elsewhere: 962816521 % 5 == 1, and % 3 == 1 before.
    await root.call(send(Partitioning.balanced(), b"b"))
    outsider = server.connect()
    status, _ = await outsider.exchange(101, b"")
    assert status == 3
    with pytest.raises(InvalidMessagesCount):
        await root.call(send(Partitioning.partition(0)))


async def test_a_committed_poll_is_not_given_again(root: EmbeddedClient) -> None:
    await root.call(send(Partitioning.partition(0), b"one", b"two"))
    assert await payloads(root, poll(0, commit=True)) == [b"one", b"two"]
    assert await payloads(root, poll(0, commit=True)) == []


async def test_a_member_without_a_partition_gets_sixteen_zero_bytes(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateConsumerGroup("s", "t", "billing"))
    with pytest.raises(MemberNotFound):
        await root.call(poll(None, consumer=GROUP))
    members = [server.root() for _ in range(4)]
    for member in members:
        await member.call(JoinConsumerGroup("s", "t", "billing"))
    for partition_id in range(3):
        await root.call(send(Partitioning.partition(partition_id), b"m"))
    polled = [await member.call(poll(None, consumer=GROUP)) for member in members]
    assert sorted(answer.messages_count for answer in polled) == [0, 1, 1, 1]


async def test_a_pending_partition_moves_with_the_commit_of_an_auto_committing_poll(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateConsumerGroup("s", "t", "billing"))
    first, second = server.root(), server.root()
    await first.call(JoinConsumerGroup("s", "t", "billing"))
    for partition_id in range(3):
        await root.call(send(Partitioning.partition(partition_id), b"m", b"n"))
        await first.call(poll(partition_id, consumer=GROUP))
    await second.call(JoinConsumerGroup("s", "t", "billing"))
    shares = [
        len(member.partitions)
        for member in (await root.call(GetConsumerGroup("s", "t", "billing"))).members
    ]
    assert shares == [3, 0]
    for partition_id in range(3):
        await first.call(poll(partition_id, consumer=GROUP, commit=True))
    members = (await root.call(GetConsumerGroup("s", "t", "billing"))).members
    assert sorted(len(member.partitions) for member in members) == [1, 2]


async def test_a_topic_without_partitions_takes_no_messages(root: EmbeddedClient) -> None:
    await root.call(CreateTopic("s", "empty", 0))
    with pytest.raises(TopicNotFound):
        await root.call(send(Partitioning.balanced(), b"m", topic="empty"))
    with pytest.raises(PartitionNotFound):
        await root.call(send(Partitioning.partition(0), b"m", topic="empty"))
    with pytest.raises(NoPartitions):
        await root.call(send(Partitioning.key(b"k"), b"m", topic="empty"))


async def test_a_purged_topic_begins_at_zero_again(root: EmbeddedClient) -> None:
    await root.call(send(Partitioning.partition(0), b"old"))
    await root.call(PurgeTopic("s", "t"))
    assert await payloads(root, poll(0)) == []
    await root.call(send(Partitioning.partition(0), b"new"))
    await root.call(FlushUnsavedBuffer("s", "t", 0, fsync=True))
    polled = await root.call(poll(0))
    assert polled.current_offset == 0
    assert [message.offset for message in decode_messages(polled.messages)] == [0]
