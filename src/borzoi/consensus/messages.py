"""Every message replicas exchange, as an immutable value in the field order of the wire.

All u128 values (checksums, cluster, client, nonce, incarnation, bitsets) are 16 little-endian
``bytes``: they are compared and used as keys, never added, and a struct gives them for free.
Headers are named tuples because one C call builds one from an unpacked struct.

``checksum`` is UNSEALED until a frame is packed (borzoi.consensus.frames), except on Prepare: its
checksum is its identity (F2), so it is sealed where it is made.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

HEADER_BYTES: Final = 256
U128: TypeAlias = bytes
ZERO: Final = bytes(16)
UNSEALED: Final = ZERO


class Command(IntEnum):
    """Codes on the wire (F3). 14-16, 18-21 and 26-29 belong to upstream and are never reused."""

    RESERVED = 0
    PING = 1
    PONG = 2
    PING_CLIENT = 3
    PONG_CLIENT = 4
    REQUEST = 5
    PREPARE = 6
    PREPARE_OK = 7
    REPLY = 8
    COMMIT = 9
    START_VIEW_CHANGE = 10
    DO_VIEW_CHANGE = 11
    START_VIEW = 12
    EVICTION = 13
    REQUEST_START_VIEW = 17
    REQUEST_STATE_TRANSFER = 22
    STATE_TRANSFER_TARGET = 23
    REQUEST_STATE_CHUNK = 24
    STATE_CHUNK = 25
    REQUEST_HEADERS = 64
    HEADERS = 65
    REQUEST_PREPARE = 66
    HANDSHAKE = 67


class Operation(IntEnum):
    """Numbers on the wire (F3). The sets below, not ranges, say which plane a number is of."""

    RESERVED = 0
    REGISTER = 1
    UNREGISTER = 3
    NOOP = 4
    TRUNCATE_PARTITION = 68
    PURGE_PARTITION = 80
    FORGET_PARTITION = 81
    CREATE_STREAM = 128
    UPDATE_STREAM = 129
    DELETE_STREAM = 130
    PURGE_STREAM = 131
    CREATE_TOPIC = 132
    UPDATE_TOPIC = 133
    DELETE_TOPIC = 134
    PURGE_TOPIC = 135
    CREATE_PARTITIONS = 136
    DELETE_PARTITIONS = 137
    DELETE_SEGMENTS = 138
    CREATE_CONSUMER_GROUP = 139
    DELETE_CONSUMER_GROUP = 140
    CREATE_USER = 141
    UPDATE_USER = 142
    DELETE_USER = 143
    CHANGE_PASSWORD = 144
    UPDATE_PERMISSIONS = 145
    CREATE_PERSONAL_ACCESS_TOKEN = 146
    DELETE_PERSONAL_ACCESS_TOKEN = 147
    JOIN_CONSUMER_GROUP = 148
    LEAVE_CONSUMER_GROUP = 149
    SEND_MESSAGES = 160
    STORE_CONSUMER_OFFSET = 161
    DELETE_CONSUMER_OFFSET = 162


# Operations of the core itself, as plain numbers: every op is compared with them.
NOOP: Final = Operation.NOOP.value
REGISTER: Final = Operation.REGISTER.value
UNREGISTER: Final = Operation.UNREGISTER.value


class Ping(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    ping_monotonic: int
    pong_wall: int
    checkpoint_op: int
    control_view: int
    status: int


class Pong(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    ping_monotonic: int
    pong_wall: int
    checkpoint_op: int
    control_view: int
    status: int


class PingClient(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    client: U128


class PongClient(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    client: U128


class Request(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    client: U128
    request_checksum: U128
    timestamp: int
    request: int
    operation: int
    namespace: int
    user_id: int
    epoch: int


class Prepare(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    client: U128
    parent: U128
    request_checksum: U128
    op: int
    commit: int
    timestamp: int
    request: int
    operation: int
    namespace: int
    user_id: int


class PrepareOk(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    parent: U128
    prepare_checksum: U128
    op: int
    commit: int
    timestamp: int
    request: int
    operation: int
    namespace: int


class Reply(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    request_checksum: U128
    context: U128
    client: U128
    op: int
    commit: int
    timestamp: int
    request: int
    operation: int
    namespace: int
    status: int


class Commit(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    commit_checksum: U128
    timestamp_monotonic: int
    commit: int
    checkpoint_op: int
    namespace: int


class StartViewChange(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    namespace: int


class DoViewChange(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    op: int
    commit: int
    namespace: int
    log_view: int
    nack_bitset: U128
    present_bitset: U128


class StartView(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    op: int
    commit: int
    namespace: int
    incarnation: U128


class Eviction(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    client: U128


class RequestStartView(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    namespace: int
    flags: int
    incarnation: U128


class RequestHeaders(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    namespace: int
    op_min: int
    op_max: int
    op_max_checksum: U128


class Headers(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    namespace: int


class RequestPrepare(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    namespace: int
    op: int
    prepare_checksum: U128


class RequestStateTransfer(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    nonce: U128
    namespace: int


class StateTransferTarget(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    nonce: U128
    commit_op: int
    namespace: int
    available: int
    transient: int
    commit_max: int


class RequestStateChunk(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    nonce: U128
    offset: int
    namespace: int
    length: int
    artifact: int


class StateChunk(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    nonce: U128
    offset: int
    namespace: int
    artifact: int


class Handshake(NamedTuple):
    checksum: U128
    checksum_body: U128
    cluster: U128
    size: int
    view: int
    release: int
    command: int
    replica: int
    status: int
    flags: int
    namespace: int
    incarnation: U128
    echo: U128
    nonce: bytes
    mac: bytes


Header: TypeAlias = (
    Ping
    | Pong
    | PingClient
    | PongClient
    | Request
    | Prepare
    | PrepareOk
    | Reply
    | Commit
    | StartViewChange
    | DoViewChange
    | StartView
    | Eviction
    | RequestStartView
    | RequestHeaders
    | Headers
    | RequestPrepare
    | RequestStateTransfer
    | StateTransferTarget
    | RequestStateChunk
    | StateChunk
    | Handshake
)
