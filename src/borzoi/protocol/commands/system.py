"""The server itself: liveness, statistics, snapshots, the cluster, the connected clients.

::

    Ping, GetStats, GetClusterMetadata, GetMe, GetClients    no fields
    GetSnapshot   u8 compression, u8 n, n × u8 kind
    GetClient     u32 client_id

    Stats                                   bytes
      u32 process_id                        0
      f32 cpu_usage, f32 total_cpu_usage    4, 8       percent of this process, of the machine
      u64 memory_usage                      12
      u64 total_memory, available_memory    20, 28
      u64 run_time, u64 start_time          36, 44     µs, whole seconds
      u64 read_bytes, u64 written_bytes     52, 60
      u64 messages_size_bytes               68
      u32 streams_count, topics_count,      76, 80,
          partitions_count, segments_count  84, 88
      u64 messages_count                    92
      u32 clients_count                     100
      u32 consumer_groups_count             104
      str32 hostname, os_name, os_version, kernel_version, server_version
      u32 server_semver                     0 = absent, else major·10⁶ + minor·10³ + patch
      u32 n, n × (u32 stream_id, u32 topic_id, u32 partition_id, u64 hits, u64 misses,
                  f32 hit_ratio)
      u32 threads_count, u64 free_disk_space, u64 total_disk_space

    Snapshot         the bytes of a ZIP archive
    ClusterMetadata  str32 name, u32 n, n × (str32 name, str32 ip, u16 tcp_port, u16 quic_port,
                     u16 http_port, u16 websocket_port, u8 role, u8 status)
    ClientInfo       u32 client_id, u32 user_id (u32 max: not logged in), u8 transport,
                     str32 address, u32 consumer_groups_count
    ClientDetails    ClientInfo, then per group u32 stream_id, u32 topic_id, u32 group_id
    Clients          ClientInfo × n, no count
"""

import struct
from typing import ClassVar, Final, Self

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.model.identifiers import NO_USER_ID
from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from borzoi.model.value import Value
from borzoi.protocol.buffers import Buffer, Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import Listing, RequestValue, Response
from borzoi.protocol.naming import NoFields

_SNAPSHOT_COMPRESSIONS: Final = {int(each): each for each in SnapshotCompression}
_SNAPSHOT_KINDS: Final = {int(each): each for each in SnapshotKind}
_TRANSPORTS: Final = {int(each): each for each in TransportKind}
_ROLES: Final = {int(each): each for each in NodeRole}
_STATUSES: Final = {int(each): each for each in NodeStatus}

_STATS: Final = struct.Struct("<IffQQQQQQQQIIIIQII")
_CACHE: Final = struct.Struct("<IIIQQf")
_DISK: Final = struct.Struct("<IQQ")
_NODE: Final = struct.Struct("<HHHHBB")
_CLIENT: Final = struct.Struct("<IIB")
_GROUP: Final = struct.Struct("<III")
assert _STATS.size == 108
assert _CACHE.size == 32


class CacheMetrics(Value):
    """How often the reads of one partition were answered from memory."""

    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float


class Stats(Value):
    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: int
    total_memory: int
    available_memory: int
    run_time: int
    start_time: int
    read_bytes: int
    written_bytes: int
    messages_size_bytes: int
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
    server_version: str
    server_semver: int | None
    cache_metrics: tuple[CacheMetrics, ...]
    threads_count: int
    free_disk_space: int
    total_disk_space: int

    def encode(self, out: Writer) -> None:
        out.pack(
            _STATS,
            self.process_id,
            self.cpu_usage,
            self.total_cpu_usage,
            self.memory_usage,
            self.total_memory,
            self.available_memory,
            self.run_time,
            self.start_time,
            self.read_bytes,
            self.written_bytes,
            self.messages_size_bytes,
            self.streams_count,
            self.topics_count,
            self.partitions_count,
            self.segments_count,
            self.messages_count,
            self.clients_count,
            self.consumer_groups_count,
        )
        out.str32(self.hostname).str32(self.os_name).str32(self.os_version)
        out.str32(self.kernel_version).str32(self.server_version)
        out.u32(self.server_semver or 0).u32(len(self.cache_metrics))
        for cache in self.cache_metrics:
            out.pack(
                _CACHE,
                cache.stream_id,
                cache.topic_id,
                cache.partition_id,
                cache.hits,
                cache.misses,
                cache.hit_ratio,
            )
        out.pack(_DISK, self.threads_count, self.free_disk_space, self.total_disk_space)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        numbers = reader.unpack(_STATS)
        texts = [reader.str32() for _ in range(5)]
        semver = reader.u32() or None
        caches = tuple(CacheMetrics(*reader.unpack(_CACHE)) for _ in range(reader.u32()))
        fields = (*numbers, *texts, semver, caches, *reader.unpack(_DISK))
        return cls(*fields)


class Snapshot(Value):
    """A ZIP archive with one text file per requested kind."""

    archive: Buffer

    def encode(self, out: Writer) -> None:
        out.bytes(self.archive)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(bytes(reader.rest()))


class ClusterNode(Value):
    name: str
    ip: str
    tcp_port: int
    quic_port: int
    http_port: int
    websocket_port: int
    role: NodeRole
    status: NodeStatus


class ClusterMetadata(Value):
    name: str
    nodes: tuple[ClusterNode, ...]

    def encode(self, out: Writer) -> None:
        out.str32(self.name).u32(len(self.nodes))
        for node in self.nodes:
            out.str32(node.name).str32(node.ip).pack(
                _NODE,
                node.tcp_port,
                node.quic_port,
                node.http_port,
                node.websocket_port,
                node.role,
                node.status,
            )

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        name = reader.str32()
        return cls(name, tuple(_read_node(reader) for _ in range(reader.u32())))


def _read_node(reader: Reader) -> ClusterNode:
    name, ip = reader.str32(), reader.str32()
    tcp, quic, http, websocket, role_code, status_code = reader.unpack(_NODE)
    role, status = _ROLES.get(role_code), _STATUSES.get(status_code)
    if role is None or status is None:
        raise InvalidCommand(f"node {name!r} has role {role_code} and status {status_code}")
    return ClusterNode(name, ip, tcp, quic, http, websocket, role, status)


class ClientGroup(Value):
    """A consumer group that a client has joined."""

    stream_id: int
    topic_id: int
    group_id: int


class ClientInfo(Value):
    client_id: int
    user_id: int | None
    transport: TransportKind
    address: str
    consumer_groups_count: int

    def encode(self, out: Writer) -> None:
        _write_client(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*_read_client(reader))


class ClientDetails(Value):
    client_id: int
    user_id: int | None
    transport: TransportKind
    address: str
    consumer_groups: tuple[ClientGroup, ...]

    @property
    def consumer_groups_count(self) -> int:
        return len(self.consumer_groups)

    def encode(self, out: Writer) -> None:
        _write_client(out, self)
        for group in self.consumer_groups:
            out.pack(_GROUP, group.stream_id, group.topic_id, group.group_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        client_id, user_id, transport, address, count = _read_client(reader)
        groups: list[ClientGroup] = []
        while reader.remaining():
            groups.append(ClientGroup(*reader.unpack(_GROUP)))
        if len(groups) != count:
            raise InvalidFormat(f"{len(groups)} groups follow a client that claims {count}")
        return cls(client_id, user_id, transport, address, tuple(groups))


def _write_client(out: Writer, client: ClientInfo | ClientDetails) -> None:
    user_id = NO_USER_ID if client.user_id is None else client.user_id
    out.pack(_CLIENT, client.client_id, user_id, client.transport)
    out.str32(client.address).u32(client.consumer_groups_count)


def _read_client(reader: Reader) -> tuple[int, int | None, TransportKind, str, int]:
    client_id, user_id, transport_code = reader.unpack(_CLIENT)
    transport = _TRANSPORTS.get(transport_code)
    if transport is None:
        raise InvalidCommand(f"there is no transport {transport_code}")
    address, count = reader.str32(), reader.u32()
    return client_id, None if user_id == NO_USER_ID else user_id, transport, address, count


class Clients(Listing):
    ITEM = ClientInfo
    clients: tuple[ClientInfo, ...]


class Ping(NoFields):
    CODE = Code.PING


class GetStats(NoFields):
    CODE = Code.GET_STATS
    RESPONSE: ClassVar[type[Response] | None] = Stats


class GetSnapshot(RequestValue):
    CODE = Code.GET_SNAPSHOT
    RESPONSE: ClassVar[type[Response] | None] = Snapshot
    compression: SnapshotCompression
    kinds: tuple[SnapshotKind, ...]

    def encode(self, out: Writer) -> None:
        out.u8(self.compression).u8(len(self.kinds)).bytes(bytes(self.kinds))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        compression = _SNAPSHOT_COMPRESSIONS.get(reader.u8())
        if compression is None:
            raise InvalidCommand("there is no such compression of snapshots")
        kinds: list[SnapshotKind] = []
        for kind_code in reader.bytes(reader.u8()):
            kind = _SNAPSHOT_KINDS.get(kind_code)
            if kind is None:
                raise InvalidCommand(f"there is no snapshot of kind {kind_code}")
            kinds.append(kind)
        if SnapshotKind.ALL in kinds and len(kinds) > 1:
            raise InvalidCommand("a snapshot of everything names nothing else")
        return cls(compression, tuple(kinds))


class GetClusterMetadata(NoFields):
    CODE = Code.GET_CLUSTER_METADATA
    RESPONSE: ClassVar[type[Response] | None] = ClusterMetadata


class GetMe(NoFields):
    CODE = Code.GET_ME
    RESPONSE: ClassVar[type[Response] | None] = ClientDetails


class GetClient(RequestValue):
    CODE = Code.GET_CLIENT
    RESPONSE: ClassVar[type[Response] | None] = ClientDetails
    client_id: int

    def encode(self, out: Writer) -> None:
        out.u32(self.client_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.u32())


class GetClients(NoFields):
    CODE = Code.GET_CLIENTS
    RESPONSE: ClassVar[type[Response] | None] = Clients
