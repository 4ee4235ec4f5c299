"""Chores, each called once at a time of the test's choosing; only the runner has a clock."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, described, embedded_server
from tests.support.sends import send_of
from tests.support.starts import settings_with

from borzoi.handlers.call import Services
from borzoi.handlers.sessions import Session
from borzoi.metadata import queries
from borzoi.metadata.state import Topic
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidCredentials, StaleClient
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.model.system import TransportKind
from borzoi.model.topics import Compression
from borzoi.protocol.commands.groups import CreateConsumerGroup, GetConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream, GetStreams, PurgeStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken, GetPersonalAccessTokens
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.server import housekeeping
from borzoi.server.config import load
from borzoi.server.housekeeping import (
    Chore,
    Strangers,
    algorithm_of,
    run_all,
    shard_chores,
    writer_chores,
)

SECOND = 1_000_000
HOUR = 3600 * SECOND
SETTINGS = {
    "SYSTEM_SEGMENT_SIZE": "512 B",
    "SYSTEM_PARTITION_ACKNOWLEDGE": "buffered",
    "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1000",
}
GROUP = Consumer(ConsumerKind.GROUP, "g")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(tmp_path, SETTINGS) as running:
        root = running.root()
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", "t", 2))
        yield running


@pytest.fixture
def root(server: EmbeddedServer) -> EmbeddedClient:
    return server.root()


def later(services: Services, microseconds: int) -> Services:
    """The same server, some time from now."""
    clock = services.clock
    return msgspec.structs.replace(services, clock=lambda: clock() + microseconds)


def first_topic(server: EmbeddedServer) -> Topic:
    return queries.topic(server.services.metadata.state, "s", "t")


async def test_expired_tokens_are_forgotten_and_others_are_not(
    server: EmbeddedServer, root: EmbeddedClient
) -> None:
    await root.call(CreatePersonalAccessToken("short", 60 * SECOND))
    await root.call(CreatePersonalAccessToken("long", 2 * HOUR))
    await housekeeping.expire_tokens(server.services)
    assert len((await root.call(GetPersonalAccessTokens())).tokens) == 2
    await housekeeping.expire_tokens(later(server.services, HOUR))
    assert [token.name for token in (await root.call(GetPersonalAccessTokens())).tokens] == ["long"]


async def polled_and_joined(server: EmbeddedServer, root: EmbeddedClient) -> None:
    """Two members; the second waits for a partition of the first, which has committed nothing."""
    await root.call(CreateConsumerGroup("s", "t", "g"))
    await root.call(JoinConsumerGroup("s", "t", "g"))
    for number in range(2):
        await root.call(send_of(b"x", partitioning=Partitioning.partition(number)))
        await root.call(PollMessages(GROUP, "s", "t", None, PollingStrategy.next(), 10, False))
    second = server.root()
    await second.call(JoinConsumerGroup("s", "t", "g"))


@pytest.mark.parametrize("purge", [PurgeTopic("s", "t"), PurgeStream("s")])
async def test_a_purge_ends_the_wait_for_a_commit_that_cannot_come(
    server: EmbeddedServer, root: EmbeddedClient, purge: Request
) -> None:
    await polled_and_joined(server, root)
    group = queries.group_of(first_topic(server), "g")
    assert any(queries.is_pending(group, number) for number in range(2))
    await root.call(purge)
    assert not any(queries.is_pending(group, number) for number in range(2))
    assert sorted(len(member.partitions) for member in group.members.values()) == [1, 1]


async def test_a_partition_moves_without_a_commit_when_the_patience_is_over(
    server: EmbeddedServer, root: EmbeddedClient
) -> None:
    await polled_and_joined(server, root)

    async def shares() -> list[int]:
        group = await root.call(GetConsumerGroup("s", "t", "g"))
        return sorted(len(member.partitions) for member in group.members)

    before = await shares()
    await housekeeping.expire_revocations(server.services, patience=30 * SECOND)
    assert await shares() == before
    await housekeeping.expire_revocations(later(server.services, HOUR), patience=30 * SECOND)
    assert await shares() == [1, 1]
    group = queries.group_of(first_topic(server), "g")
    assert not any(queries.is_pending(group, number) for number in range(2))


async def test_what_is_buffered_is_saved(server: EmbeddedServer, root: EmbeddedClient) -> None:
    await root.call(send_of(b"kept"))
    log = server.directory / "streams/0/topics/0/partitions/0/00000000000000000000.log"
    assert b"kept" not in log.read_bytes()
    await housekeeping.save(server.services, sync=True)
    assert b"kept" in log.read_bytes()


async def test_old_segments_go_and_young_ones_stay(
    server: EmbeddedServer, root: EmbeddedClient
) -> None:
    await root.call(UpdateTopic("s", "t", "t", message_expiry=60 * SECOND))
    for number in range(9):
        await root.call(send_of(b"%d" % number * 200))
        await housekeeping.save(server.services, sync=False)
    namespace = Namespace(0, 0, 0)
    many = described(server.services.partitions, namespace).segments_count
    await housekeeping.clean(server.services)
    assert described(server.services.partitions, namespace).segments_count == many > 2
    await housekeeping.clean(later(server.services, HOUR))
    assert described(server.services.partitions, namespace).segments_count < many


async def test_a_session_without_ping_leaves_its_groups_and_is_told_so(
    server: EmbeddedServer, root: EmbeddedClient
) -> None:
    await root.call(CreateConsumerGroup("s", "t", "g"))
    silent, lively = server.root(), server.root()
    for client in (silent, lively):
        await client.call(JoinConsumerGroup("s", "t", "g"))
    now = asyncio.get_running_loop().time()
    # Hours, so that the moments until it looks at its clock do not count.
    silent.session.pinged_at, lively.session.pinged_at = now - 2 * 3600, now - 1.1 * 3600
    root.session.pinged_at = now
    await housekeeping.drop_silent(server.services, interval=HOUR)
    members = (await root.call(GetConsumerGroup("s", "t", "g"))).members
    assert len(members) == 1
    await lively.call(GetMe())
    await silent.call(GetStreams())
    with pytest.raises(StaleClient):
        await silent.call(JoinConsumerGroup("s", "t", "g"))
    assert silent.session.closing


async def test_sealed_segments_of_a_compressed_topic_are_compressed(
    server: EmbeddedServer, root: EmbeddedClient
) -> None:
    await root.call(UpdateTopic("s", "t", "t", Compression.ZSTD))
    for number in range(8):
        await root.call(send_of(b"%d" % number * 200))
        await housekeeping.save(server.services, sync=False)
    await housekeeping.compress(server.services, server.configuration.settings.system)
    folder = server.directory / "streams/0/topics/0/partitions/0"
    assert list(folder.glob("*.log.zst"))


def test_a_topic_without_an_algorithm_has_the_servers_unless_none_is_its_right() -> None:
    def topic(compression: Compression) -> Topic:
        return Topic(0, "t", 0, compression, NEVER, UNLIMITED, 1)

    zstd = Compression.ZSTD
    assert algorithm_of(topic(Compression.NONE), zstd, allow_override=False) is zstd
    assert algorithm_of(topic(Compression.NONE), zstd, allow_override=True) is Compression.NONE
    assert algorithm_of(topic(Compression.GZIP), zstd, allow_override=False) is Compression.GZIP


async def test_the_line_about_the_server_is_written(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="borzoi"):
        await housekeeping.print_sysinfo(server.services)
    assert "memory" in caplog.text


async def test_what_is_switched_off_is_no_chore(server: EmbeddedServer, tmp_path: Path) -> None:
    def names(**variables: str) -> set[str]:
        settings = settings_with(tmp_path, **variables)
        rows = [
            *shard_chores(settings, server.services),
            *writer_chores(settings, server.services),
        ]
        return {one.name for one in rows}

    everything = names(DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED="true", HEARTBEAT_ENABLED="true")
    assert everything == {
        "revocations",
        "compression",
        "saver",
        "cleaner",
        "tokens",
        "heartbeats",
        "strangers",
        "sysinfo",
    }
    assert names(
        MESSAGE_SAVER_ENABLED="false",
        PERSONAL_ACCESS_TOKEN_CLEANER_ENABLED="false",
        SYSTEM_LOGGING_SYSINFO_PRINT_INTERVAL="0",
        TCP_LOGIN_TIMEOUT="0",
    ) == {"revocations", "compression"}


async def test_every_chore_of_a_server_can_be_run(server: EmbeddedServer, tmp_path: Path) -> None:
    environment = {
        "BORZOI_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
        "BORZOI_HEARTBEAT_ENABLED": "true",
    }
    settings = load(environment, tmp_path).settings
    for chore in [
        *shard_chores(settings, server.services),
        *writer_chores(settings, server.services),
    ]:
        waiting = chore.act()
        if waiting is not None:
            await waiting


async def test_a_chore_that_fails_is_told_and_has_its_next_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns: list[str] = []
    enough = asyncio.Event()

    def fails() -> None:
        turns.append("fails")
        raise ValueError("no luck")

    async def works() -> None:
        turns.append("works")
        if turns.count("fails") > 1 and turns.count("works") > 1:
            enough.set()

    rows = [Chore("fails", 1, fails), Chore("works", 1, works)]
    running = asyncio.create_task(run_all(rows))
    async with asyncio.timeout(60):
        await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "fails failed; retrying" in caplog.text


async def test_who_spoke_or_left_while_others_were_dropped_is_not_dropped(tmp_path: Path) -> None:
    # Each change waits for the disk, so dropping several takes a while.
    async with embedded_server(tmp_path) as server:
        services = server.services
        first, spoke, left = server.root(), server.root(), server.root()
        now = asyncio.get_running_loop().time()
        for client in (first, spoke, left):
            client.session.pinged_at = now - 10

        async def meanwhile() -> None:
            spoke.session.pinged_at = now
            services.sessions.remove(left.session)

        dropping = asyncio.create_task(housekeeping.drop_silent(services, interval=5 * SECOND))
        speaking = asyncio.create_task(meanwhile())
        await asyncio.gather(dropping, speaking)
        assert [one.session.stale for one in (first, spoke, left)] == [True, False, False]
        assert services.sessions.get(spoke.session.client_id) is spoke.session


def test_a_stranger_is_overdue_after_its_time_and_a_guest_never() -> None:
    def session() -> Session:
        return Session(1, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0)

    stranger, guest, waiting = session(), session(), session()
    everyone = [stranger, guest, waiting]
    strangers = Strangers(60)
    waiting.login_pending = True
    assert strangers.overdue(everyone, now=0) == []
    guest.user_id = 0
    stranger.pinged_at = 59
    assert strangers.overdue(everyone, now=59.9) == []
    assert strangers.overdue(everyone, now=60) == [stranger]
    # Its time begins anew with a logout, and when a login that waited was refused.
    guest.user_id = None
    waiting.login_pending = False
    assert strangers.overdue([guest, waiting], now=100) == []
    assert strangers.overdue([guest, waiting], now=159) == []
    assert strangers.overdue([guest, waiting], now=160) == [guest, waiting]
    assert strangers.overdue([], now=161) == []


async def test_who_does_not_log_in_is_turned_away(server: EmbeddedServer) -> None:
    stranger, guest = server.connect(), server.root()
    housekeeping.turn_away(server.services, Strangers(1000))
    assert not stranger.hung_up
    await stranger.call(Ping())
    housekeeping.turn_away(server.services, Strangers(0))
    assert (stranger.hung_up, guest.hung_up) == (True, False)


async def test_a_session_that_sent_no_ping_goes_on_if_it_is_logged_in(
    server: EmbeddedServer,
) -> None:
    stranger, guest = server.connect(), server.root()
    for client in (stranger, guest):
        client.session.pinged_at = -1e9
    await housekeeping.drop_silent(server.services, interval=HOUR)
    assert (stranger.hung_up, guest.hung_up) == (False, False)
    housekeeping.turn_away(server.services, Strangers(0))
    assert (stranger.hung_up, guest.hung_up) == (True, False)


async def test_a_login_that_waits_for_its_turn_is_not_turned_away(server: EmbeddedServer) -> None:
    late = server.connect()
    login = asyncio.create_task(late.call(LoginUser("iggy", "iggy")))
    while not late.session.login_pending:
        await asyncio.sleep(0)
    housekeeping.turn_away(server.services, Strangers(0))
    await login
    assert not late.hung_up
    with pytest.raises(InvalidCredentials):
        await late.call(LoginUser("iggy", "wrong"))
    assert not late.session.login_pending
