import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, with_topic

from borzoi.handlers import prepared as prepared_module
from borzoi.handlers.prepared import PreparedPoll, PreparedRequests, prepare_poll, prepare_send
from borzoi.metadata import queries
from borzoi.metadata.state import Stream, Topic
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import PartitionNotFound
from borzoi.model.identifiers import consumer_key
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.partitions import DeletePartitions

POLL = PreparedPoll(Namespace(0, 0, 0), 1)


def topic_of(server: EmbeddedServer) -> tuple[Stream, Topic]:
    stream = queries.stream(server.services.metadata.state, "s")
    return stream, queries.topic_of(stream, "t")


async def test_a_named_partition_is_resolved_once_and_has_to_exist(server: EmbeddedServer) -> None:
    stream, topic = topic_of(await with_topic(server))
    partitions = server.services.partitions
    prepared = prepare_send(stream, topic, Partitioning.partition(1), partitions)
    assert prepared.namespace == (0, 0, 1)
    with pytest.raises(PartitionNotFound):
        prepare_send(stream, topic, Partitioning.partition(2), partitions)


async def test_a_balanced_send_still_takes_turns(server: EmbeddedServer) -> None:
    stream, topic = topic_of(await with_topic(server))
    partitions = server.services.partitions
    prepared = prepare_send(stream, topic, Partitioning.balanced(), partitions)
    assert prepared.namespace is None
    assert [prepared.chosen(partitions).partition_id for _ in range(3)] == [0, 1, 0]


async def test_a_poll_is_prepared_for_its_partition_and_consumer(server: EmbeddedServer) -> None:
    stream, topic = topic_of(await with_topic(server))
    reader = Consumer(ConsumerKind.CONSUMER, "reader")
    request = PollMessages(reader, "s", "t", 1, PollingStrategy.first(), 10)
    prepared = prepare_poll(stream, topic, request)
    assert (prepared.namespace, prepared.consumer_id) == ((0, 0, 1), consumer_key("reader"))
    with pytest.raises(PartitionNotFound):
        prepare_poll(stream, topic, PollMessages(reader, "s", "t", 7, PollingStrategy.first(), 1))


def test_what_was_prepared_holds_for_one_user_and_one_revision() -> None:
    kept = PreparedRequests[PreparedPoll]()
    assert kept.find(7, b"bytes", 1) is None
    kept.keep(7, b"bytes", POLL)
    assert kept.find(7, b"bytes", 1) is POLL
    assert kept.find(8, b"bytes", 1) is None
    assert kept.find(7, b"other", 1) is None
    assert kept.find(7, b"bytes", 2) is None
    assert kept.find(7, b"bytes", 1) is None


def test_ever_new_keys_do_not_keep_others_from_being_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared_module, "PREPARED_MAX", 3)
    kept = PreparedRequests[PreparedPoll]()
    for number in range(10):
        kept.find(7, b"%d" % number, 1)
        kept.keep(7, b"%d" % number, POLL)
        assert kept.find(7, b"%d" % number, 1) is POLL


async def test_joining_and_leaving_a_group_keeps_what_was_prepared(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await with_topic(server)
    await root.call(CreateConsumerGroup("s", "t", "g"))
    before = server.services.metadata.revision
    await root.call(JoinConsumerGroup("s", "t", "g"))
    await root.call(LeaveConsumerGroup("s", "t", "g"))
    await root.disconnect()
    assert server.services.metadata.revision == before
    await server.root().call(DeletePartitions("s", "t", 1))
    assert server.services.metadata.revision == before + 1
