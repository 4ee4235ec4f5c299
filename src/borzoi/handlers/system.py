"""The server itself: ping, statistics, connected clients, cluster nodes, snapshots."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from borzoi import __version__
from borzoi.handlers.call import Call
from borzoi.handlers.neighbours import Neighbours, ShardUsage, summed
from borzoi.handlers.sessions import Session, SessionRecord
from borzoi.metadata import queries
from borzoi.model.errors import ClientNotFound, InvalidClientId
from borzoi.partitions.futures import arrived, then
from borzoi.protocol.commands.system import (
    ClientDetails,
    ClientGroup,
    ClientInfo,
    Clients,
    ClusterMetadata,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
    Ping,
    Snapshot,
    Stats,
)
from borzoi.shard.partition_table import Totals

SECOND_US = 1_000_000


def ping(request: Ping, call: Call) -> None:
    call.session.pinged_at = asyncio.get_running_loop().time()


def get_stats(request: GetStats, call: Call) -> Stats | Coroutine[Any, Any, Stats]:
    host, neighbours = call.services.host, call.services.neighbours
    if neighbours is not None:
        return _stats_everywhere(call, neighbours)
    clients_count = len(call.services.sessions)
    own = ShardUsage(0, host.process_id, host.started_at, clients_count, host.sample())
    return then(call.partitions.totals(), lambda totals: _stats(totals, [own], call))


async def _stats_everywhere(call: Call, neighbours: Neighbours) -> Stats:
    totals = await arrived(call.partitions.totals())
    return _stats(totals, await neighbours.usage(), call)


def _stats(totals: Totals, shards: Sequence[ShardUsage], call: Call) -> Stats:
    host, state = call.services.host, call.state
    usage = summed(shards)
    topics = [topic for stream in state.streams.values() for topic in stream.topics.values()]
    return Stats(
        process_id=shards[0].process_id,
        cpu_usage=usage.cpu_percent,
        total_cpu_usage=usage.total_cpu_percent,
        memory_usage=usage.memory_bytes,
        total_memory=usage.total_memory_bytes,
        available_memory=usage.available_memory_bytes,
        run_time=host.run_seconds * SECOND_US,
        start_time=int(shards[0].started_at) * SECOND_US,
        read_bytes=usage.read_bytes,
        written_bytes=usage.written_bytes,
        messages_size_bytes=totals.size_bytes,
        streams_count=len(state.streams),
        topics_count=len(topics),
        partitions_count=sum(len(topic.partitions) for topic in topics),
        segments_count=totals.segments_count,
        messages_count=totals.messages_count,
        clients_count=sum(one.clients_count for one in shards),
        consumer_groups_count=sum(len(topic.groups) for topic in topics),
        hostname=host.hostname,
        os_name=host.os_name,
        os_version=host.os_version,
        kernel_version=host.kernel_version,
        server_version=__version__,
        server_semver=version_number(__version__),
        cache_metrics=(),
        threads_count=usage.threads,
        free_disk_space=usage.free_disk_bytes,
        total_disk_space=usage.total_disk_bytes,
    )


def version_number(version: str) -> int:
    """``1.2.3`` as 1002003."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 1_000_000 + minor * 1_000 + patch


async def get_snapshot(request: GetSnapshot, call: Call) -> Snapshot:
    return Snapshot(await call.services.snapshots.taken(request.compression, request.kinds))


def get_cluster_metadata(request: GetClusterMetadata, call: Call) -> ClusterMetadata:
    return call.services.cluster.metadata()


def get_me(request: GetMe, call: Call) -> ClientDetails:
    return _details(call.session, call)


def get_client(
    request: GetClient, call: Call
) -> ClientDetails | Coroutine[Any, Any, ClientDetails]:
    if request.client_id == 0:
        raise InvalidClientId("no client has the id 0")
    session = call.services.sessions.get(request.client_id)
    if session is not None:
        return _details(session, call)
    neighbours = call.services.neighbours
    if neighbours is None:
        raise ClientNotFound(f"there is no client {request.client_id}")
    return _client_elsewhere(request.client_id, call, neighbours)


async def _client_elsewhere(client_id: int, call: Call, neighbours: Neighbours) -> ClientDetails:
    for record in await neighbours.sessions():
        if record.client_id == client_id:
            return _details(record, call)
    raise ClientNotFound(f"there is no client {client_id}")


def get_clients(request: GetClients, call: Call) -> Clients | Coroutine[Any, Any, Clients]:
    neighbours = call.services.neighbours
    if neighbours is None:
        return _clients(call.services.sessions, call)
    return _clients_everywhere(call, neighbours)


async def _clients_everywhere(call: Call, neighbours: Neighbours) -> Clients:
    others = await neighbours.sessions()
    return _clients([*call.services.sessions, *others], call)


def _clients(sessions: Iterable[Session | SessionRecord], call: Call) -> Clients:
    return Clients(
        tuple(
            ClientInfo(
                session.client_id,
                session.user_id,
                session.transport,
                session.address,
                len(queries.groups_of(call.state, session.client_id)),
            )
            for session in sessions
        )
    )


def _details(session: Session | SessionRecord, call: Call) -> ClientDetails:
    groups = tuple(
        ClientGroup(*address) for address in queries.groups_of(call.state, session.client_id)
    )
    return ClientDetails(
        session.client_id, session.user_id, session.transport, session.address, groups
    )
