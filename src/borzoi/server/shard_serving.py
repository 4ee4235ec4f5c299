"""One process of a server that has several: its planes, its listeners, its end.

Shard 0 opens the metadata and writes it; it alone speaks HTTP and QUIC. The others begin with its
state and listen where it listens. `server/process.py` has what a server of one process does, which
is most of this as well.
"""

import asyncio
import gc
import logging
import os
import socket
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from borzoi.diagnostics.host import Host
from borzoi.handlers.call import Services
from borzoi.handlers.consumer_quota import ConsumerQuota
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.routed_dispatch import RoutedDispatcher
from borzoi.handlers.sessions import Session, Sessions
from borzoi.handlers.shard_neighbours import ShardNeighbours
from borzoi.memory.pool import MemoryPool
from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.guards import GroupIs
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Metadata
from borzoi.model.errors import BorzoiError, ShardUnavailable
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.users import UserStatus
from borzoi.security.encryption import Cipher
from borzoi.server import exit_statuses
from borzoi.server.assembly import (
    Opened,
    OpenedShard,
    acknowledge_of,
    authentication,
    clock,
    cluster_nodes,
    effects_on,
    hang_up,
    metadata_plane,
    partitions_of_disk,
    pool_of,
    snapshots,
)
from borzoi.server.descriptor_limit import room_for_files
from borzoi.server.housekeeping import Chore
from borzoi.server.launching import Start
from borzoi.server.listening import ListeningContext
from borzoi.server.migration import Migration
from borzoi.server.opening import folders_of
from borzoi.server.process import RunningServer, open_started
from borzoi.server.revoked_tokens import RevokedTokens
from borzoi.server.settings import Settings
from borzoi.shard.bus import Bus
from borzoi.shard.leaving import leave_groups
from borzoi.shard.links import Links
from borzoi.shard.metadata_copies import MetadataCopies
from borzoi.shard.metadata_copy import MetadataCopy
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.shard.ownership import Ownership
from borzoi.shard.routing import WRITER, RoutedPartitionPlane
from borzoi.storage.local import LocalMedium
from borzoi.telemetry.durations import Ongoing

log = logging.getLogger(__name__)

#: How often other shards are notified of deleted files.
RELEASE_INTERVAL = 1_000_000
#: How long a stop waits for the other shards to report their partitions.
PRESENT_SECONDS_MAX = 1.0
#: Sections that only shard 0 listens on.
ONLY_FIRST = ("http", "quic")


class SupervisorLink(Protocol):
    """The connection to the supervisor."""

    #: False for a process that replaces one that died.
    first_start: bool

    def ready(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Report that all listeners of this shard accept, at these addresses."""

    async def bound(self) -> Mapping[str, tuple[str, int]]:
        """Return where shard 0 listens, by the section of the settings."""

    async def all_ready(self) -> bool:
        """Wait until the listeners of all shards accept; False if a stop comes first."""

    async def stopped(self) -> None:
        """Wait until the server has to stop."""

    async def drained(self) -> None:
        """Report that nothing is pending on this shard; return when that is true of all."""

    def attach(self, links: Links) -> None:
        """Report new and lost peers to these links."""


async def serve_shard(start: Start, directory: Path, links: Links, control: SupervisorLink) -> int:
    """Serve as one shard until the supervisor stops it; return the exit status."""
    settings = start.configuration.settings
    pool = pool_of(settings, shards=links.count, arena=os.dup(links.arena))
    bus = Bus(links)
    control.attach(links)
    try:
        server = await _opened(start, directory, bus, pool)
        try:
            await server.open_to_clients(control)
            gc.collect()
            gc.freeze()
            stopping = [
                asyncio.create_task(_stop_after(each, server))
                for each in (control.stopped(), bus.broken.wait())
            ]
            status = await server.serve()
            for task in stopping:
                task.cancel()
            if bus.broken.is_set():
                log.critical("a connection to another shard failed; ending, to be replaced")
                status = exit_statuses.FAILED
            await server.part()
            bus.is_stopping = True
            await control.drained()
            return status
        finally:
            await server.close()
    finally:
        bus.close()
        links.close()
        pool.close()


async def _opened(start: Start, directory: Path, bus: Bus, pool: MemoryPool) -> "ShardServer":
    if bus.shard == WRITER:
        opened = open_started(start, directory, pool)
        return ShardServer(start, directory, opened, bus)
    copy = MetadataCopy(bus)
    await copy.join()
    opened_copy = _opened_copy(start.configuration.settings, directory, copy, pool)
    return ShardServer(start, directory, opened_copy, bus, copy)


def _opened_copy(
    settings: Settings, directory: Path, copy: MetadataCopy, pool: MemoryPool
) -> OpenedShard:
    """What a shard that does not write the metadata has open."""
    medium, encryption = LocalMedium(), settings.system.encryption
    return OpenedShard(
        medium=medium,
        state=copy.state,
        cipher=Cipher(encryption.key) if encryption.enabled else None,
        pool=pool,
        acknowledge=acknowledge_of(settings),
        revoked_tokens=RevokedTokens(medium, directory, {}),
    )


async def _stop_after(event: Awaitable[object], server: RunningServer) -> None:
    await event
    server.stop()


class ShardServer(RunningServer):
    """A server in one process of several."""

    def __init__(
        self,
        start: Start,
        directory: Path,
        opened: OpenedShard,
        bus: Bus,
        copy: MetadataCopy | None = None,
    ) -> None:
        self._bus = bus
        self._copy = copy
        self._ownership = Ownership(bus.shard, bus.count)
        super().__init__(start, directory, opened)

    @property
    def _is_writer(self) -> bool:
        return self._copy is None

    def _assembled(self) -> Services:
        settings, opened, bus = self._settings, self._opened, self._bus
        syncs = Ongoing()
        table, upkeep, store = partitions_of_disk(
            settings,
            self._directory,
            opened,
            self._archiver,
            syncs,
            shard=bus.shard,
            count=bus.count,
        )
        room = room_for_files(bus.count)
        partitions = RoutedPartitionPlane(
            table,
            upkeep,
            store,
            bus=bus,
            ownership=self._ownership,
            arena=opened.pool.arena,
            cipher=opened.cipher,
            files_max=room.crossed,
            clients_max=room.clients,
        )
        if isinstance(opened, Opened):
            partitions.finish_deletions(opened.effects, opened.state)
        table.open_all(opened.state, self._ownership.is_own)
        self._partitions = partitions
        sessions, quota, host = Sessions(), ConsumerQuota(), Host(self._directory)
        self._neighbours = ShardNeighbours(bus, sessions, host)
        carry_out = effects_on(partitions, sessions, quota)
        metadata: MetadataPlane | MetadataCopy
        if isinstance(opened, Opened):
            metadata = metadata_plane(settings, opened)
            metadata.bind_effects(carry_out, partitions.clear_target)
        else:
            assert self._copy is not None, "a shard that does not write the metadata has a copy"
            metadata = self._copy
        services = Services(
            metadata=metadata,
            partitions=partitions,
            sessions=sessions,
            authentication=authentication(),
            host=host,
            consumer_quota=quota,
            cluster=cluster_nodes(settings, follower=self._start.follower),
            snapshots=snapshots(settings, self._directory),
            tokens_max=settings.personal_access_token.max_tokens_per_user,
            clock=clock,
            polled_bytes_max=settings.system.partition.max_poll_size,
            syncs=syncs,
            neighbours=self._neighbours,
        )
        partitions.begin()
        if isinstance(metadata, MetadataPlane):
            MetadataCopies(bus, metadata)
        else:
            metadata.bind_effects(carry_out, self._follow)
        return services

    def _bound_early(self) -> dict[str, socket.socket]:
        """Bind after shard 0, at the ports that it got."""
        return {}

    def _dispatching(self) -> Dispatcher:
        self._migration = Migration(self._bus, self._services, lambda: self._listeners)
        moves = self._migration.move if self._settings.tcp.socket_migration else None
        return RoutedDispatcher(self._services, self._partitions, moves)

    async def open_to_clients(self, control: SupervisorLink) -> None:
        """Listen; shard 0 announces the server when all shards listen."""
        if self._is_writer:
            if control.first_start:
                self._config_file.unlink(missing_ok=True)
            await self._listen(self._settings)
            self._migration.begin()
            control.ready(self.addresses)
            if await control.all_ready():
                self.announce(printed=control.first_start)
            return
        bound = await control.bound()
        await self._listen(_without_first(self._settings, bound))
        self._services.cluster.bound({name: address[1] for name, address in bound.items()})
        self._migration.begin()
        control.ready(self.addresses)

    def _listening_context(self) -> ListeningContext:
        """The metrics are those of all processes, whichever is asked."""
        return msgspec.structs.replace(
            super()._listening_context(),
            shards=self._bus.count,
            shard=self._bus.shard,
            other_metrics=self._neighbours.metrics,
            publish=self._neighbours.publish,
        )

    # Chores.

    def _chores(self) -> list[Chore]:
        own = [
            *self._shard_chores(),
            Chore("deleted files", RELEASE_INTERVAL, self._partitions.release_deleted),
        ]
        return [*own, *self._writer_chores()] if self._is_writer else own

    async def _keep_presence(self) -> None:
        """Record the partitions of all shards; if one does not answer, the last list stays."""
        metadata = self._services.metadata
        assert isinstance(metadata, MetadataPlane), "only the writer keeps the list"
        index = metadata.settled_index
        try:
            async with asyncio.timeout(PRESENT_SECONDS_MAX):
                found = await self._partitions.opened_everywhere()
        except (TimeoutError, ShardUnavailable):
            return
        folder_of = folders_of(self._settings, self._directory)
        places = [(namespace, folder_of(namespace)) for namespace in found]
        await asyncio.to_thread(self._note_presence, index, places)

    # Sessions.

    async def _left(self, client_id: int) -> None:
        services = self._services
        await leave_groups(
            services.metadata.submit, client_id, lambda: services.sessions.get(client_id) is None
        )

    async def _follow(self, before: Metadata, after: Metadata) -> None:
        """Another process writes the metadata now: match its state."""
        await self._partitions.follow(before, after)
        outdated = [
            one for one in self._services.sessions.connected() if is_outdated(one, before, after)
        ]
        hang_up(outdated)
        for session in self._services.sessions:
            if session.joined:
                task = asyncio.get_running_loop().create_task(self._join_again(session, before))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    async def _join_again(self, session: Session, before: Metadata) -> None:
        """Members are not stored, so the new writer does not know those of this shard."""
        client_id = session.client_id
        for address in before.memberships.get(client_id, set()).copy():
            group = before.streams[address.stream_id].topics[address.topic_id].groups
            guard = GroupIs(*address, group[address.group_id].birth)
            command = JoinGroup(*address, client_id)
            try:
                await self._services.metadata.submit(Proposal(command, ROOT_USER_ID, (guard,)))
            except BorzoiError as fault:
                log.warning("client %d could not rejoin group %s: %s", client_id, address, fault)

    # The end.

    async def part(self) -> None:
        """Do the last work that needs the other shards."""
        if self._is_writer:
            await self._keep_presence()

    async def _close_partitions(self) -> None:
        await self._services.partitions.close()


def is_outdated(session: Session, before: Metadata, after: Metadata) -> bool:
    """Whether the user or the token of a session was deleted."""
    if session.user_id is None:
        return False
    known, user = before.users.get(session.user_id), after.users.get(session.user_id)
    if user is None or known is None or user.birth != known.birth:
        return True
    if session.token_hash is not None and session.token_hash not in after.token_owners:
        return True
    return user.status is not UserStatus.ACTIVE


def _without_first(settings: Settings, bound: Mapping[str, tuple[str, int]]) -> Settings:
    """Return the settings of another shard: the same addresses, with the bound ports."""
    for section in ONLY_FIRST:
        changed = getattr(settings, section).replaced(enabled=False)
        settings = settings.replaced(**{section: changed})
    for section in ("tcp", "websocket"):
        if section in bound:
            host, port = bound[section]
            changed = getattr(settings, section).replaced(address=(host, port))
            settings = settings.replaced(**{section: changed})
    return settings
