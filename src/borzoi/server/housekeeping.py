"""What a server does by itself from time to time, each as one row: how often, and what.

A chore that fails is logged and tried again at its next turn; it never takes the server down.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

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
from borzoi.partitions.futures import arrived
from borzoi.server.settings import Settings, SystemSection
from borzoi.shard.leaving import leave_groups

log = logging.getLogger(__name__)

SECOND_US = 1_000_000
#: A session may miss its ping by a fifth of the interval.
HEARTBEAT_TOLERANCE = 1.2
#: How often sealed segments of compressed topics are looked for.
COMPRESSION_INTERVAL = 5 * SECOND_US
#: How often sessions without a login are looked for, in the time they have for it.
LOOKS_PER_LOGIN_TIMEOUT = 10


class Chore(msgspec.Struct, frozen=True):
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
            log.warning("%s failed: %s; it is tried again in its next turn", chore.name, fault)
        except Exception:
            log.exception("%s failed; it is tried again in its next turn", chore.name)


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
    """Partitions that waited too long for a commit move without it."""
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
    """A topic's own algorithm; the server's where it asks for none, unless that is its right."""
    if topic.compression is not Compression.NONE or allow_override:
        return topic.compression
    return default


async def drop_silent(services: Services, *, interval: int) -> None:
    """Sessions without a ping leave their groups; their next command is rejected."""
    limit = HEARTBEAT_TOLERANCE * interval / SECOND_US
    before = asyncio.get_running_loop().time() - limit
    for session in services.sessions.silent_since(before):
        # While others were dropped it may have spoken or gone, and its id may be another one's.
        if session.pinged_at >= before or not services.sessions.give_up(session):
            continue
        await leave_groups(services.metadata.submit, session.client_id)
        log.info("%s sent no ping for %.1f s", session.address, limit)


class Strangers:
    """Since when a session is unauthenticated: since it was first seen so, after a connect or
    after a logout."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: dict[Session, float] = {}

    def overdue(self, sessions: Iterable[Session], *, now: float) -> list[Session]:
        """Those that have been seen without a login for too long; all are seen now."""
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
        "cpu %.1f %%, memory %d MiB, clients %d, messages %d, partitions that retention waits for"
        " a consumer in %d, up %d s",
        usage.cpu_percent,
        usage.memory_bytes >> 20,
        len(services.sessions),
        totals.messages_count,
        len(services.partitions.upkeep.pinned),
        int(time.time() - services.host.started_at),
    )
