"""Chores: the periodic work of a server, one row each.

A failed chore is logged and retried at its next interval; it never stops the server.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from borzoi.handlers.call import Services
from borzoi.handlers.sessions import Session
from borzoi.metadata import queries
from borzoi.metadata.groups import ExpireRevocations
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Topic
from borzoi.metadata.tokens import ExpireTokens
from borzoi.model.errors import BorzoiError
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.partitions.futures import arrived
from borzoi.server.settings import Settings, SystemSection
from borzoi.shard.leaving import leave_groups

log = logging.getLogger(__name__)

SECOND_US = 1_000_000
#: A ping may be late by a fifth of the interval.
HEARTBEAT_TOLERANCE = 1.2
#: How often to look for sealed segments of compressed topics.
COMPRESSION_INTERVAL = 5 * SECOND_US
#: How many times within the login timeout to look for unauthenticated sessions.
LOOKS_PER_LOGIN_TIMEOUT = 10


class Chore(Value):
    """Something to do every `interval` microseconds."""

    name: str
    interval: int
    act: Callable[[], Awaitable[None] | None]


async def run_all(chores: Sequence[Chore]) -> None:
    """Run every chore until cancelled."""
    async with asyncio.TaskGroup() as group:
        for chore in chores:
            group.create_task(_run(chore), name=chore.name)


async def _run(chore: Chore) -> None:
    while True:
        await asyncio.sleep(chore.interval / SECOND_US)
        try:
            waiting = chore.act()
            if inspect.isawaitable(waiting):
                await waiting
        except BorzoiError as fault:
            log.warning("%s failed: %s; retrying at its next interval", chore.name, fault)
        except Exception:
            log.exception("%s failed; retrying at its next interval", chore.name)


def writer_chores(settings: Settings, services: Services) -> list[Chore]:
    """The chores of the process that writes the metadata."""
    rows = [
        Chore(
            "revocations",
            settings.consumer_group.rebalancing_check_interval,
            lambda: expire_revocations(
                services, patience=settings.consumer_group.rebalancing_timeout
            ),
        )
    ]
    tokens = settings.personal_access_token.cleaner
    if tokens.enabled:
        rows.append(Chore("tokens", tokens.interval, lambda: expire_tokens(services)))
    if settings.system.logging.sysinfo_print_interval:
        rows.append(
            Chore(
                "sysinfo",
                settings.system.logging.sysinfo_print_interval,
                lambda: print_sysinfo(services),
            )
        )
    return rows


def shard_chores(settings: Settings, services: Services) -> list[Chore]:
    """The chores of every process, about its partitions and its sessions."""
    rows = [Chore("compression", COMPRESSION_INTERVAL, lambda: compress(services, settings.system))]
    if settings.message_saver.enabled:
        sync = settings.message_saver.enforce_fsync
        rows.append(
            Chore("saver", settings.message_saver.interval, lambda: save(services, sync=sync))
        )
    cleaner = settings.data_maintenance.messages
    if cleaner.cleaner_enabled:
        rows.append(Chore("cleaner", cleaner.interval, lambda: clean(services)))
    if settings.heartbeat.enabled:
        interval = settings.heartbeat.interval
        rows.append(Chore("heartbeats", interval, lambda: drop_silent(services, interval=interval)))
    login_timeout = settings.tcp.login_timeout
    if login_timeout:
        strangers = Strangers(login_timeout / SECOND_US)
        rows.append(
            Chore(
                "strangers",
                max(login_timeout // LOOKS_PER_LOGIN_TIMEOUT, SECOND_US // 10),
                lambda: turn_away(services, strangers),
            )
        )
    return rows


async def expire_revocations(services: Services, *, patience: int) -> None:
    """Hand over partitions that waited too long for a commit."""
    before = services.clock() - patience
    if queries.has_expired_revocations(services.metadata.state, before):
        await services.metadata.submit(Proposal(ExpireRevocations(before), ROOT_USER_ID))


async def expire_tokens(services: Services) -> None:
    now = services.clock()
    if queries.has_expired_tokens(services.metadata.state, now):
        await services.metadata.submit(Proposal(ExpireTokens(now), ROOT_USER_ID))


async def save(services: Services, *, sync: bool) -> None:
    await services.partitions.flush_all(sync=sync)


async def clean(services: Services) -> None:
    await services.partitions.upkeep.clean(services.metadata.state, now=services.clock())


async def compress(services: Services, system: SystemSection) -> None:
    default = Compression[system.compression.default_algorithm.upper()]
    override = system.compression.allow_override
    await services.partitions.upkeep.compress(
        services.metadata.state,
        lambda topic: algorithm_of(topic, default, allow_override=override),
    )


def algorithm_of(topic: Topic, default: Compression, *, allow_override: bool) -> Compression:
    """Return the topic's algorithm; the server's if it has none, unless topics may opt out."""
    if topic.compression is not Compression.NONE or allow_override:
        return topic.compression
    return default


async def drop_silent(services: Services, *, interval: int) -> None:
    """Remove sessions without a ping from their groups; their next command is rejected."""
    limit = HEARTBEAT_TOLERANCE * interval / SECOND_US
    before = asyncio.get_running_loop().time() - limit
    for session in services.sessions.silent_since(before):
        # Meanwhile it may have sent something or disconnected, and its id may have been reused.
        if session.pinged_at >= before or not services.sessions.give_up(session):
            continue
        await leave_groups(services.metadata.submit, session.client_id)
        log.info("%s sent no ping for %.1f s", session.address, limit)


class Strangers:
    """Since when each session has been unauthenticated: since it was first seen so, after a connect
    or a logout."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[Session, float] = {}

    def overdue(self, sessions: Iterable[Session], *, now: float) -> list[Session]:
        """Record all sessions; return those that have been unauthenticated for too long."""
        self._since = {
            session: self._since.get(session, now)
            for session in sessions
            if session.user_id is None and not session.login_pending
        }
        return [one for one, since in self._since.items() if now - since >= self._patience]


def turn_away(services: Services, strangers: Strangers) -> None:
    """Disconnect clients that do not log in in time; pings do not count as a login."""
    now = asyncio.get_running_loop().time()
    for session in strangers.overdue(services.sessions.connected(), now=now):
        log.info("%s did not log in", session.address)
        session.hang_up()


async def print_sysinfo(services: Services) -> None:
    usage = services.host.sample()
    totals = await arrived(services.partitions.totals())
    log.debug(
        "cpu %.1f %%, memory %d MiB, clients %d, messages %d, partitions where a consumer holds"
        " back retention %d, up %d s",
        usage.cpu_percent,
        usage.memory_bytes >> 20,
        len(services.sessions),
        totals.messages_count,
        len(services.partitions.upkeep.pinned),
        int(time.time() - services.host.started_at),
    )
