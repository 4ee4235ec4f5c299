"""Faults of the published server that were reproduced on it, each on a real server of ours.

Every test is named after what must not happen.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError, NoPartitions, Unauthorized
from borzoi.model.partitioning import Partitioning
from borzoi.model.users import Permissions, StreamPermissions, TopicPermissions, UserStatus
from borzoi.protocol.catalog import Request
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    JoinConsumerGroup,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream
from borzoi.protocol.commands.system import GetClients, GetMe, Ping
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import CreateUser, LoginUser
from borzoi.records.message import Message, decode_messages

pytestmark = pytest.mark.system

GROUP = Consumer(ConsumerKind.GROUP, "g")
PATIENCE_SECONDS = 60.0


class Clients:
    """Connections to one server, closed together."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self._server = server
        self._stack = stack

    def root(self) -> WireClient:
        client = self._stack.enter_context(WireClient(self._server.tcp_address))
        client.login()
        return client

    def root_with_topic(self, partitions: int = 1) -> WireClient:
        """Has made the topic t of the stream s."""
        client = self.root()
        client.call(CreateStream("s"))
        client.call(CreateTopic("s", "t", partitions))
        return client

    def user(self, name: str) -> WireClient:
        client = self._stack.enter_context(WireClient(self._server.tcp_address))
        client.call(LoginUser(name, "secret"))
        return client


def ask(client: WireClient, request: Request) -> Any:
    return client.call(request)


def send(*payloads: bytes, partition: int = 0, first_id: int = 0) -> SendMessages:
    ids = range(first_id, first_id + len(payloads)) if first_id else [0] * len(payloads)
    made = [Message(payload, number) for payload, number in zip(payloads, ids, strict=True)]
    return send_of(*made, partitioning=Partitioning.partition(partition))


def stored(client: WireClient, partition: int = 0) -> list[tuple[int, bytes]]:
    """Offset and payload of everything in a partition."""
    polled = ask(client, poll_of(1000, partition=partition))
    messages = decode_messages(polled.messages)
    assert len(messages) == polled.messages_count
    return [(message.offset, message.payload) for message in messages]


def group_poll(partition: int | None = None, *, commit: bool) -> PollMessages:
    return PollMessages(GROUP, "s", "t", partition, PollingStrategy.next(), 10, commit)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
def server(settings: dict[str, str]) -> Iterator[RunningServer]:
    with running_server(settings) as running:
        yield running


@pytest.fixture
def clients(server: RunningServer) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(server, stack)


@pytest.mark.parametrize("settings", [{"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true"}])
def test_duplicates_do_not_shift_offsets_nor_stop_the_server(
    server: RunningServer, clients: Clients
) -> None:
    root = clients.root_with_topic()
    root.call(send(b"a", b"b", first_id=1))
    root.call(send(b"a", b"b", first_id=1))
    root.call(send(b"b", b"c", first_id=2))
    root.call(send(b"d", first_id=9))
    wanted = [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert stored(root) == wanted
    assert server.stop() == 0
    server.start()
    again = clients.root()
    assert stored(again) == wanted
    again.call(send(b"e", first_id=20))
    assert stored(again)[-1] == (4, b"e")


@pytest.mark.parametrize("settings", [{"SYSTEM_SEGMENT_SIZE": "512 B"}])
def test_a_restart_does_not_empty_topics_that_leave_their_size_to_the_server(
    server: RunningServer, clients: Clients
) -> None:
    root = clients.root_with_topic()
    root.call(UpdateTopic("s", "t", "t"))
    sent = [b"%d" % number * 200 for number in range(8)]
    for payload in sent:
        root.call(send(payload))
    before = ask(root, GetTopic("s", "t"))
    assert before.partitions[0].segments_count > 2
    # Another topic shows when the cleaner has been here: all it has is too old at once.
    root.call(CreateTopic("s", "old", 1, message_expiry=1))
    for payload in sent:
        old = send(payload)
        root.call(SendMessages("s", "old", old.partitioning, 1, old.indexes, old.messages))
    server.stop()
    server.environment |= {
        "BORZOI_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
        "BORZOI_DATA_MAINTENANCE_MESSAGES_INTERVAL": "50 ms",
    }
    server.start()
    again = clients.root()
    until(lambda: ask(again, GetTopic("s", "old")).messages_count < 3)
    after = ask(again, GetTopic("s", "t"))
    assert (after.max_topic_size, after.message_expiry) == (
        before.max_topic_size,
        before.message_expiry,
    )
    assert after.max_topic_size != 0
    assert [payload for _, payload in stored(again)] == sent


@pytest.mark.parametrize(
    "settings",
    [
        {
            "SYSTEM_PARTITION_ACKNOWLEDGE": "buffered",
            "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1000",
        }
    ],
)
def test_purged_messages_do_not_come_back(server: RunningServer, clients: Clients) -> None:
    root = clients.root_with_topic()
    root.call(send(b"one", b"two", b"three"))
    root.call(PurgeTopic("s", "t"))
    assert stored(root) == []
    root.call(send(b"new"))
    assert stored(root) == [(0, b"new")]
    root.call(FlushUnsavedBuffer("s", "t", 0, True))
    assert stored(root) == [(0, b"new")]
    server.stop()
    server.start()
    assert stored(clients.root()) == [(0, b"new")]


def test_a_poll_that_ends_a_handover_does_not_stop_everything(
    server: RunningServer, clients: Clients
) -> None:
    first, second, other = clients.root_with_topic(2), clients.root(), clients.root()
    first.call(CreateConsumerGroup("s", "t", "g"))
    first.call(JoinConsumerGroup("s", "t", "g"))
    for partition in range(2):
        first.call(send(b"one", b"two", partition=partition))
        first.call(group_poll(commit=False))
    second.call(JoinConsumerGroup("s", "t", "g"))
    # By number: whose turn it is by itself skips the partition that is about to go.
    for partition in range(2):
        first.call(group_poll(partition, commit=True))

    def shares() -> list[int]:
        members = ask(other, GetConsumerGroup("s", "t", "g")).members
        return sorted(len(member.partitions) for member in members)

    assert shares() == [1, 1]
    other.call(send(b"three", partition=1))
    other.call(CreateStream("s2"))
    assert len(stored(other, 1)) == 3
    assert server.stop() == 0
    # What hung would have been waited for, and told.
    assert "did not end in time" not in server.output


def test_a_keyed_send_to_a_topic_without_partitions_does_not_stop_the_server(
    server: RunningServer, clients: Clients
) -> None:
    root = clients.root_with_topic(0)
    batch = send(b"x")
    keyed = SendMessages("s", "t", Partitioning.key(b"k"), 1, batch.indexes, batch.messages)
    with pytest.raises(NoPartitions):
        root.call(keyed)
    root.call(CreatePartitions("s", "t", 1))
    root.call(keyed)
    assert stored(root) == [(0, b"x")]
    assert server.stop() == 0


def test_a_session_that_sends_does_not_forget_its_user_nor_its_groups(clients: Clients) -> None:
    member, watcher = clients.root_with_topic(3), clients.root()
    member.call(CreateConsumerGroup("s", "t", "g"))
    member.call(JoinConsumerGroup("s", "t", "g"))
    for partition in range(3):
        member.call(send(b"x", partition=partition))
    me = ask(member, GetMe())
    assert me.user_id == 0
    assert len(me.consumer_groups) == 1
    listed = {one.client_id: one for one in ask(watcher, GetClients()).clients}
    assert (listed[me.client_id].user_id, listed[me.client_id].consumer_groups_count) == (0, 1)
    member.close()
    until(lambda: ask(watcher, GetConsumerGroup("s", "t", "g")).members == ())
    assert me.client_id not in {one.client_id for one in ask(watcher, GetClients()).clients}


def test_a_partition_with_uncommitted_messages_does_not_change_hands(clients: Clients) -> None:
    first = clients.root_with_topic(2)
    second, third, other = (clients.root() for _ in range(3))
    first.call(CreateConsumerGroup("s", "t", "g"))
    first.call(JoinConsumerGroup("s", "t", "g"))
    # A member that came and went: its leave must not wipe what is marked after it.
    third.call(JoinConsumerGroup("s", "t", "g"))
    third.close()
    until(lambda: len(ask(other, GetConsumerGroup("s", "t", "g")).members) == 1)
    for partition in range(2):
        first.call(send(b"x", partition=partition))
        first.call(group_poll(commit=False))
    other.call(CreateStream("s2"))
    second.call(JoinConsumerGroup("s", "t", "g"))
    other.call(CreateStream("s3"))
    assert decode_messages(ask(second, group_poll(commit=False)).messages) == []
    for partition in range(2):
        try:
            first.call(StoreConsumerOffset(GROUP, "s", "t", partition, 0))
        except BorzoiError:
            # It moved with the commit before: that is what commits are for.
            continue
    first.call(send(b"y", partition=0))
    first.call(send(b"y", partition=1))
    until(lambda: bool(decode_messages(ask(second, group_poll(commit=True)).messages)))


def test_permissions_do_not_reach_the_next_stream_with_the_same_number(
    server: RunningServer, clients: Clients
) -> None:
    root = clients.root_with_topic()
    whole = StreamPermissions(read_stream=True, manage_stream=True)
    root.call(CreateUser("ann", "secret", UserStatus.ACTIVE, Permissions(streams={0: whole})))
    topics = StreamPermissions(topics={0: TopicPermissions(read_topic=True)})
    root.call(CreateUser("bob", "secret", UserStatus.ACTIVE, Permissions(streams={0: topics})))
    ann, bob = clients.user("ann"), clients.user("bob")
    assert ask(ann, GetStream("s")).id == 0
    assert ask(bob, GetTopic("s", "t")).id == 0
    root.call(DeleteTopic("s", "t"))
    root.call(CreateTopic("s", "t", 1))
    with pytest.raises(Unauthorized):
        bob.call(GetTopic("s", "t"))
    root.call(DeleteStream("s"))
    root.call(CreateStream("s"))
    root.call(CreateTopic("s", "t", 1))
    assert ask(root, GetStream("s")).id == 0
    with pytest.raises(Unauthorized):
        ann.call(GetStream("s"))
    server.stop()
    server.start()
    for name, request in (("ann", GetStream("s")), ("bob", GetTopic("s", "t"))):
        with pytest.raises(Unauthorized):
            clients.user(name).call(request)


def test_a_request_that_fails_inside_does_not_end_the_server(
    server: RunningServer, clients: Clients
) -> None:
    """Someone deletes its files while it runs: what needs them fails, and nothing else does."""
    root, other = clients.root_with_topic(), clients.root()
    root.call(send(b"x"))
    shutil.rmtree(server.directory / "streams")
    (server.directory / "streams").write_text("in the way")
    for request in (
        send(b"y"),
        CreateTopic("s", "u", 1),
        CreatePartitions("s", "t", 1),
        CreateStream("s2"),
        DeleteStream("s"),
    ):
        try:
            root.call(request)
        except BorzoiError:
            continue
    other.call(Ping())
    assert ask(other, GetMe()).user_id == 0
    assert server.process.poll() is None
    assert server.stop() == 0
