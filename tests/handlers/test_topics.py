import pytest
from tests.support.embedded import EmbeddedClient

from borzoi.model.errors import InvalidTopicSize, TooManyPartitions, TopicNameTaken, TopicNotFound
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.protocol.commands import topics
from borzoi.protocol.commands.streams import CreateStream


@pytest.fixture
async def stream(root: EmbeddedClient) -> str:
    await root.call(CreateStream("orders"))
    return "orders"


async def test_server_defaults_are_resolved_when_a_topic_is_made_and_changed(
    root: EmbeddedClient, stream: str
) -> None:
    made = await root.call(topics.CreateTopic(stream, "placed", 3))
    assert (made.message_expiry, made.max_topic_size) == (NEVER, UNLIMITED)
    await root.call(
        topics.UpdateTopic(stream, "placed", "shipped", message_expiry=0, max_topic_size=0)
    )
    changed = await root.call(topics.GetTopic(stream, "shipped"))
    assert (changed.message_expiry, changed.max_topic_size) == (NEVER, UNLIMITED)


async def test_segments_are_counted_once_the_partitions_are_open(
    root: EmbeddedClient, stream: str
) -> None:
    made = await root.call(topics.CreateTopic(stream, "placed", 2))
    assert [partition.segments_count for partition in made.partitions] == [0, 0]
    found = await root.call(topics.GetTopic(stream, "placed"))
    assert [partition.segments_count for partition in found.partitions] == [1, 1]


async def test_clients_that_do_not_know_lz4_are_told_gzip(
    root: EmbeddedClient, stream: str
) -> None:
    await root.call(topics.CreateTopic(stream, "placed", 1, compression=Compression.LZ4))
    assert (await root.call(topics.GetTopic(stream, "placed"))).compression is Compression.GZIP


async def test_faults_are_named(root: EmbeddedClient, stream: str) -> None:
    await root.call(topics.CreateTopic(stream, "placed", 1))
    with pytest.raises(TopicNameTaken):
        await root.call(topics.CreateTopic(stream, "placed", 1))
    with pytest.raises(TooManyPartitions):
        await root.call(topics.CreateTopic("no such stream", "placed", 1001))
    with pytest.raises(InvalidTopicSize):
        await root.call(topics.CreateTopic(stream, "small", 1, max_topic_size=1))
    with pytest.raises(TopicNotFound):
        await root.call(topics.PurgeTopic(stream, "nowhere"))


async def test_topics_are_listed_until_they_are_deleted(root: EmbeddedClient, stream: str) -> None:
    await root.call(topics.CreateTopic(stream, "placed", 1))
    await root.call(topics.CreateTopic(stream, "shipped", 1))
    await root.call(topics.DeleteTopic(stream, "placed"))
    assert [topic.name for topic in (await root.call(topics.GetTopics(stream))).topics] == [
        "shipped"
    ]
    assert await root.call(topics.GetTopics("nowhere")) is None
    assert await root.call(topics.GetTopic(stream, "placed")) is None
