import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer

from borzoi.handlers import routes as routes_module
from borzoi.handlers.call import Call
from borzoi.handlers.routes import PollRoutes, SendRoutes
from borzoi.memory.pool import NOWHERE
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import PartitionNotFound
from borzoi.model.identifiers import consumer_key
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import POLL_MOVING, PollMessages, SendMessages
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.contract import encode_payload
from borzoi.records.message import Message, encode_messages


def payload(partitioning: Partitioning, count: int = 1) -> memoryview:
    indexes, body = encode_messages([Message(b"m")] * count)
    request = SendMessages("s", "t", partitioning, count, memoryview(indexes), memoryview(body))
    return memoryview(bytearray(encode_payload(request)))


async def test_a_route_is_found_for_the_same_user_and_bytes_until_metadata_changes(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    routes, call = SendRoutes(), Call(root.session, server.services)
    sent = payload(Partitioning.partition(1))
    assert routes.find(root.session, sent, 1, NOWHERE) is None
    routes.remember(root.session, sent, call)
    found = routes.find(root.session, payload(Partitioning.partition(1), 3), 1, NOWHERE)
    assert found is not None
    route, batch = found
    assert (route.namespace, len(batch)) == ((0, 0, 1), 3)
    assert routes.find(server.connect(user_id=7).session, sent, 1, NOWHERE) is None
    assert routes.find(root.session, payload(Partitioning.balanced()), 1, NOWHERE) is None
    assert routes.find(root.session, sent[:6], 1, NOWHERE) is None
    assert routes.find(root.session, sent, 2, NOWHERE) is None


async def test_ever_new_keys_do_not_keep_others_from_being_remembered(
    root: EmbeddedClient, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_module, "ROUTES_MAX", 3)
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    routes, call = SendRoutes(), Call(root.session, server.services)
    routes.find(root.session, payload(Partitioning.balanced()), 1, NOWHERE)
    for key in range(10):
        sent = payload(Partitioning.key(b"%d" % key))
        routes.remember(root.session, sent, call)
        assert routes.find(root.session, sent, 1, NOWHERE) is not None
    polls = PollRoutes()
    for consumer in range(10):
        poll = PollMessages(
            Consumer(ConsumerKind.CONSUMER, consumer), "s", "t", 0, PollingStrategy.first(), 1
        )
        asked = memoryview(encode_payload(poll))
        polls.find(root.session, asked, 1)
        polls.remember(root.session, asked, poll, call)
        assert polls.find(root.session, asked, 1) is not None


async def test_a_balanced_route_still_takes_turns(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    routes, call = SendRoutes(), Call(root.session, server.services)
    sent = payload(Partitioning.balanced())
    routes.find(root.session, sent, 1, NOWHERE)
    routes.remember(root.session, sent, call)
    found = routes.find(root.session, sent, 1, NOWHERE)
    assert found is not None
    assert [found[0].chosen(call).partition_id for _ in range(3)] == [0, 1, 0]


async def test_metadata_with_bytes_behind_its_count_takes_the_long_way(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    plain = bytes(payload(Partitioning.partition(0)))
    length = int.from_bytes(plain[:4], "little")
    padded = (
        (length + 4).to_bytes(4, "little")
        + plain[4 : 4 + length]
        + b"\1\0\0\0"
        + plain[4 + length :]
    )
    routes, call = SendRoutes(), Call(root.session, server.services)
    routes.find(root.session, memoryview(bytearray(padded)), 1, NOWHERE)
    routes.remember(root.session, memoryview(bytearray(padded)), call)
    assert routes.find(root.session, memoryview(bytearray(padded)), 1, NOWHERE) is None


async def test_a_length_beyond_the_payload_takes_the_long_way(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    plain = bytes(payload(Partitioning.partition(0)))
    assert await root.exchange(Code.SEND_MESSAGES, plain) == (0, b"")
    length = int.from_bytes(plain[:4], "little")
    for beyond in (length, length + 1, 500, 1 << 31):
        cut_off = beyond.to_bytes(4, "little") + plain[4:length]
        assert await root.exchange(Code.SEND_MESSAGES, cut_off) == (3, b"")


async def test_a_batch_in_a_buffer_that_comes_back_is_received_as_any_other(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    routes, call = SendRoutes(), Call(root.session, server.services)
    first = payload(Partitioning.partition(0), 20)
    routes.find(root.session, first, 1, 4096)
    routes.remember(root.session, first, call)
    for _ in range(4):
        found = routes.find(root.session, first, 1, 4096)
        assert found is not None
        assert len(found[1]) == 20
        assert found[1].messages.tobytes() == bytes(encode_messages([Message(b"m")] * 20)[1])


def poll(offset: int, *, kind: ConsumerKind = ConsumerKind.CONSUMER) -> PollMessages:
    return PollMessages(Consumer(kind, "reader"), "s", "t", 1, PollingStrategy.offset(offset), 10)


async def test_a_poll_is_known_again_from_any_offset_by_the_same_user_until_metadata_changes(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    routes, call = PollRoutes(), Call(root.session, server.services)
    asked, elsewhere = (memoryview(encode_payload(poll(offset))) for offset in (0, 77))
    assert routes.find(root.session, asked, 1) is None
    routes.remember(root.session, asked, poll(0), call)
    route = routes.find(root.session, elsewhere, 1)
    assert route is not None
    assert (route.namespace, route.consumer_id) == ((0, 0, 1), consumer_key("reader"))
    assert routes.find(server.connect(user_id=7).session, asked, 1) is None
    assert routes.find(root.session, asked[:13], 1) is None
    assert routes.find(root.session, asked, 2) is None


async def test_polls_of_groups_and_polls_with_more_bytes_take_the_long_way(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    routes, call = PollRoutes(), Call(root.session, server.services)
    by_group = poll(0, kind=ConsumerKind.GROUP)
    longer = encode_payload(poll(0)) + b"\0"
    routes.find(root.session, memoryview(longer), 1)
    for request, payload_bytes in ((by_group, encode_payload(by_group)), (poll(0), longer)):
        routes.remember(root.session, memoryview(payload_bytes), request, call)
        assert routes.find(root.session, memoryview(payload_bytes), 1) is None


async def test_a_poll_that_is_known_again_commits_and_is_refused_like_the_first(
    root: EmbeddedClient,
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 2))
    for _ in range(3):
        await root.exchange(Code.SEND_MESSAGES, bytes(payload(Partitioning.partition(1), 4)))
    reader = Consumer(ConsumerKind.CONSUMER, "reader")
    strategy = PollingStrategy.next()
    following = PollMessages(reader, "s", "t", 1, strategy, 5, auto_commit=True)
    polled = [await root.call(following) for _ in range(4)]
    assert [one.messages_count for one in polled] == [5, 5, 2, 0]
    wrong = bytearray(encode_payload(following))
    wrong[-POLL_MOVING.size] = 9
    assert await root.exchange(Code.POLL_MESSAGES, bytes(wrong)) == (3, b"")
    await root.call(DeletePartitions("s", "t", 1))
    with pytest.raises(PartitionNotFound):
        await root.call(following)
