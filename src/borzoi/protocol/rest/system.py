"""Statistics and cluster metadata as JSON."""

from typing import Final, Self

import msgspec
from msgspec.structs import astuple

from borzoi.protocol.commands.system import CacheMetrics, ClusterMetadata, ClusterNode, Stats
from borzoi.protocol.rest.mirroring import Converted, Document, items, mirrors, size
from borzoi.protocol.rest.words import NODE_STATUSES, ROLES


class CacheDocument(msgspec.Struct):
    hits: int
    misses: int
    hit_ratio: float


def _cache_documents(caches: tuple[CacheMetrics, ...]) -> dict[str, CacheDocument]:
    return {
        f"{cache.stream_id}-{cache.topic_id}-{cache.partition_id}": CacheDocument(
            cache.hits, cache.misses, cache.hit_ratio
        )
        for cache in caches
    }


def _caches(documents: dict[str, CacheDocument]) -> tuple[CacheMetrics, ...]:
    return tuple(
        CacheMetrics(*_partition(place), cache.hits, cache.misses, cache.hit_ratio)
        for place, cache in documents.items()
    )


def _partition(place: str) -> tuple[int, int, int]:
    stream_id, topic_id, partition_id = map(int, place.split("-"))
    return stream_id, topic_id, partition_id


_SIZES: Final = (
    "memory_usage",
    "total_memory",
    "available_memory",
    "read_bytes",
    "written_bytes",
    "messages_size_bytes",
    "free_disk_space",
    "total_disk_space",
)


@mirrors(
    Stats,
    *(size(name, name) for name in _SIZES),
    Converted("iggy_server_version", "server_version"),
    Converted("iggy_server_semver", "server_semver"),
    Converted("cache_metrics", "cache_metrics", _cache_documents, _caches),
)
class StatsDocument(Document):
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

    @classmethod
    def of(cls, node: ClusterNode) -> Self:
        ports = Endpoints(node.tcp_port, node.quic_port, node.http_port, node.websocket_port)
        role, status = ROLES.word(node.role), NODE_STATUSES.word(node.status)
        return cls(node.name, node.ip, ports, role, status)

    def response(self) -> ClusterNode:
        role, status = ROLES.member(self.role), NODE_STATUSES.member(self.status)
        fields = (self.name, self.ip, *astuple(self.endpoints), role, status)
        return ClusterNode(*fields)


@mirrors(ClusterMetadata, items("nodes", NodeDocument))
class ClusterDocument(Document):
    name: str
    nodes: list[NodeDocument]
