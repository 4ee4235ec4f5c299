"""What was acknowledged is there after a stop, and after a kill as well."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidCredentials
from borzoi.model.partitioning import Partitioning
from borzoi.model.topics import Compression
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.catalog import Request
from borzoi.protocol.commands.groups import CreateConsumerGroup, GetConsumerGroups
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStreams
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, GetTopics
from borzoi.protocol.commands.users import ChangePassword, CreateUser, GetUser, GetUsers
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

READER = Consumer(ConsumerKind.CONSUMER, "reader")
SENT = [b"message %d " % number * 20 for number in range(100)]
BATCH = 10


def ask(client: WireClient, request: Request) -> Any:
    return client.call(request)


def fill(client: WireClient) -> str:
    """Make some of everything; the text of a token."""
    for name in ("gone", "s"):
        client.call(CreateStream(name))
    client.call(DeleteStream("gone"))
    client.call(CreateStream("takes the freed number"))
    client.call(CreateTopic("s", "t", 1, Compression.GZIP, 3_600_000_000))
    client.call(CreatePartitions("s", "t", 1))
    client.call(CreateConsumerGroup("s", "t", "g"))
    for start in range(0, len(SENT), BATCH):
        batch = SENT[start : start + BATCH]
        client.call(send_of(*batch, partitioning=Partitioning.partition(1)))
    client.call(StoreConsumerOffset(READER, "s", "t", 1, 41))
    reading = Permissions(GlobalPermissions(read_streams=True))
    client.call(CreateUser("bob", "secret", UserStatus.ACTIVE, reading))
    client.call(ChangePassword("bob", "secret", "better"))
    token: str = ask(client, CreatePersonalAccessToken("tok", 0)).token
    return token


def seen(client: WireClient) -> list[Any]:
    """All that a client can see of it."""
    poll = PollMessages(READER, "s", "t", 1, PollingStrategy.first(), 1000, False)
    questions: list[Request] = [
        GetStreams(),
        GetTopics("s"),
        GetTopic("s", "t"),
        GetConsumerGroups("s", "t"),
        GetConsumerOffset(READER, "s", "t", 1),
        GetUsers(),
        GetUser("bob"),
        GetPersonalAccessTokens(),
        poll,
    ]
    return [ask(client, question) for question in questions]


def stop(server: RunningServer) -> None:
    assert server.stop() == 0


def kill(server: RunningServer) -> None:
    server.kill()


@pytest.mark.parametrize(
    "settings",
    [{}, {"SYSTEM_SEGMENT_SIZE": "2 KiB", "SYSTEM_PARTITION_ENFORCE_FSYNC": "true"}],
    ids=["defaults", "small segments, synced"],
)
@pytest.mark.parametrize("end", [stop, kill])
def test_everything_is_there_after_a_restart(
    end: Callable[[RunningServer], None], settings: dict[str, str]
) -> None:
    with running_server(settings) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            token = fill(client)
            before = seen(client)
        for _ in range(2):
            end(server)
            server.start()
            with WireClient(server.tcp_address) as client:
                client.login()
                after = seen(client)
                assert after == before
                polled = decode_messages(after[-1].messages)
                assert [message.payload for message in polled] == SENT
                assert [message.offset for message in polled] == list(range(len(SENT)))
            with WireClient(server.tcp_address) as client:
                with pytest.raises(InvalidCredentials):
                    client.login("bob", "secret")
                client.login("bob", "better")
                client.call(LoginWithPersonalAccessToken(token))
                assert ask(client, GetMe()).user_id == 0
        assert server.stop() == 0
