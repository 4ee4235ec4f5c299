"""Statistics of a server, its clients and its cluster."""

from enum import IntEnum


class TransportKind(IntEnum):
    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


class NodeRole(IntEnum):
    LEADER = 0
    FOLLOWER = 1


class NodeStatus(IntEnum):
    HEALTHY = 0
    STARTING = 1
    STOPPING = 2
    UNREACHABLE = 3
    MAINTENANCE = 4


class SnapshotCompression(IntEnum):
    """How the members of a snapshot archive are compressed."""

    STORED = 1
    DEFLATED = 2
    BZIP2 = 3
    ZSTD = 4
    LZMA = 5
    XZ = 6


class SnapshotKind(IntEnum):
    """What a snapshot may contain; `ALL` stands for everything but `TEST` and must be alone."""

    FILESYSTEM_OVERVIEW = 1
    PROCESS_LIST = 2
    RESOURCE_USAGE = 3
    TEST = 4
    SERVER_LOGS = 5
    SERVER_CONFIG = 6
    ALL = 100
