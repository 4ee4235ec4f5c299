"""Statistics and cluster metadata as JSON."""

import msgspec

from borzoi.model.units import format_bytes, parse_bytes
from borzoi.protocol.commands.system import CacheMetrics, ClusterMetadata, ClusterNode, Stats
from borzoi.protocol.rest.words import NODE_STATUSES, ROLES


class CacheDocument(msgspec.Struct):
    hits: int
    misses: int
    hit_ratio: float


class StatsDocument(msgspec.Struct):
    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: str | int
    total_memory: str | int
    available_memory: str | int
    run_time: int
    start_time: int
    read_bytes: str | int
    written_bytes: str | int
    messages_size_bytes: str | int
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    iggy_server_version: str
    iggy_server_semver: int | None
    cache_metrics: dict[str, CacheDocument]
    threads_count: int
    free_disk_space: str | int
    total_disk_space: str | int


_SIZES = (
    "memory_usage",
    "total_memory",
    "available_memory",
    "read_bytes",
    "written_bytes",
    "messages_size_bytes",
    "free_disk_space",
    "total_disk_space",
)
_RENAMED = {"iggy_server_version": "server_version", "iggy_server_semver": "server_semver"}


def stats_document(stats: Stats) -> StatsDocument:
    values = {
        name: getattr(stats, _RENAMED.get(name, name)) for name in StatsDocument.__struct_fields__
    }
    values |= {name: format_bytes(values[name]) for name in _SIZES}
    values["cache_metrics"] = {
        f"{cache.stream_id}-{cache.topic_id}-{cache.partition_id}": CacheDocument(
            cache.hits, cache.misses, cache.hit_ratio
        )
        for cache in stats.cache_metrics
    }
    return StatsDocument(**values)


def stats_of(document: StatsDocument) -> Stats:
    values = {
        _RENAMED.get(name, name): getattr(document, name)
        for name in StatsDocument.__struct_fields__
    }
    values |= {name: parse_bytes(values[name]) for name in _SIZES}
    values["cache_metrics"] = tuple(
        CacheMetrics(*_partition(place), cache.hits, cache.misses, cache.hit_ratio)
        for place, cache in document.cache_metrics.items()
    )
    return Stats(**values)


def _partition(place: str) -> tuple[int, int, int]:
    stream_id, topic_id, partition_id = map(int, place.split("-"))
    return stream_id, topic_id, partition_id


class Endpoints(msgspec.Struct):
    tcp: int
    quic: int
    http: int
    websocket: int


class NodeDocument(msgspec.Struct):
    name: str
    ip: str
    endpoints: Endpoints
    role: str
    status: str


class ClusterDocument(msgspec.Struct):
    name: str
    nodes: list[NodeDocument]


def cluster_document(cluster: ClusterMetadata) -> ClusterDocument:
    return ClusterDocument(cluster.name, [_node_document(node) for node in cluster.nodes])


def _node_document(node: ClusterNode) -> NodeDocument:
    ports = Endpoints(node.tcp_port, node.quic_port, node.http_port, node.websocket_port)
    role, status = ROLES.word(node.role), NODE_STATUSES.word(node.status)
    return NodeDocument(node.name, node.ip, ports, role, status)


def cluster_of(document: ClusterDocument) -> ClusterMetadata:
    return ClusterMetadata(document.name, tuple(_node(node) for node in document.nodes))


def _node(document: NodeDocument) -> ClusterNode:
    ports = document.endpoints
    return ClusterNode(
        document.name,
        document.ip,
        ports.tcp,
        ports.quic,
        ports.http,
        ports.websocket,
        ROLES.member(document.role),
        NODE_STATUSES.member(document.status),
    )
