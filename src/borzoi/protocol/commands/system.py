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
from typing import Final, Self

from msgspec.structs import astuple

from borzoi.model.errors import InvalidCommand
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
from borzoi.protocol.contract import Details, Listing, Request
from borzoi.protocol.layout import U32, Packed
from borzoi.protocol.naming import NoFields

_SNAPSHOT_COMPRESSIONS: Final = {int(each): each for each in SnapshotCompression}
_SNAPSHOT_KINDS: Final = {int(each): each for each in SnapshotKind}
_TRANSPORTS: Final = {int(each): each for each in TransportKind}
_ROLES: Final = {int(each): each for each in NodeRole}
_STATUSES: Final = {int(each): each for each in NodeStatus}

_STATS: Final = struct.Struct("<IffQQQQQQQQIIIIQII")
_DISK: Final = struct.Struct("<IQQ")
_NODE: Final = struct.Struct("<HHHHBB")
_CLIENT: Final = struct.Struct("<IIB")
assert _STATS.size == 108


class CacheMetrics(Packed):
    """How often the reads of one partition were answered from memory."""

    STRUCT = struct.Struct("<IIIQQf")
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
        fields = astuple(self)
        out.pack(_STATS, *fields[:18])
        for text in fields[18:23]:
            out.str32(text)
        out.u32(self.server_semver or 0).u32(len(self.cache_metrics)).all_of(self.cache_metrics)
        out.pack(_DISK, *fields[25:])

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        numbers = reader.unpack(_STATS)
        texts = [reader.str32() for _ in range(5)]
        semver = reader.u32() or None
        caches = tuple(CacheMetrics.decode(reader) for _ in range(reader.u32()))
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
            name, ip, *numbers = astuple(node)
            out.str32(name).str32(ip).pack(_NODE, *numbers)

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


class ClientGroup(Packed):
    """A consumer group that a client has joined."""

    STRUCT = struct.Struct("<III")
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
        user_id = NO_USER_ID if self.user_id is None else self.user_id
        out.pack(_CLIENT, self.client_id, user_id, self.transport)
        out.str32(self.address).u32(self.consumer_groups_count)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        client_id, user_id, transport_code = reader.unpack(_CLIENT)
        transport = _TRANSPORTS.get(transport_code)
        if transport is None:
            raise InvalidCommand(f"there is no transport {transport_code}")
        address, count = reader.str32(), reader.u32()
        return cls(client_id, None if user_id == NO_USER_ID else user_id, transport, address, count)


class ClientDetails(Details):
    INFO, ITEM = ClientInfo, ClientGroup
    client_id: int
    user_id: int | None
    transport: TransportKind
    address: str
    consumer_groups: tuple[ClientGroup, ...]

    @property
    def consumer_groups_count(self) -> int:
        return len(self.consumer_groups)


class Clients(Listing):
    ITEM = ClientInfo
    clients: tuple[ClientInfo, ...]


class Ping(NoFields): ...


class GetStats(NoFields):
    RESPONSE = Stats


class GetSnapshot(Request):
    RESPONSE = Snapshot
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
    RESPONSE = ClusterMetadata


class GetMe(NoFields):
    RESPONSE = ClientDetails


class GetClient(Request):
    RESPONSE = ClientDetails
    LAYOUT = (U32,)
    client_id: int


class GetClients(NoFields):
    RESPONSE = Clients
