"""The compound values that several commands share, on the wire.

::

    consumer          u8 kind (1 consumer, 2 group), identifier
    optional u32      u8 flag (1 present, anything else absent), u32 value (0 when absent)
    partitioning      u8 kind, u8 length, value
                        1 balanced: nothing   2 partition: u32   3 key: 1..255 bytes
    polling strategy  u8 kind (1 offset, 2 timestamp, 3 first, 4 last, 5 next), u64 value
    compression       u8 (1 none, 2 gzip, 3 lz4, 4 zstd)
    user status       u8 (1 active, 2 inactive)
    permissions       10 × bool  manage_servers read_servers manage_users read_users
                                 manage_streams read_streams manage_topics read_topics
                                 poll_messages send_messages
                      u8 has_streams (0: end of the permissions)
                      repeated:
                        u32 stream_id
                        6 × bool   manage_stream read_stream manage_topics read_topics
                                   poll_messages send_messages
                        u8 has_topics (0: none for this stream)
                        repeated:
                          u32 topic_id
                          4 × bool   manage_topic read_topic poll_messages send_messages
                          u8 has_next_topic (1: another one follows)
                        u8 has_next_stream (1: another one follows)
    sized permissions u8 flag (1 present), then u32 length, permissions
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidCommand, InvalidFormat, InvalidKeyLength
from borzoi.model.partitioning import Partitioning, PartitioningKind
from borzoi.model.topics import Compression
from borzoi.model.users import (
    NO_STREAMS,
    NO_TOPICS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.layout import FieldKind

# Looking a kind up in a dict is several times cheaper than calling the enum class, and a miss is
# an ordinary None.
_CONSUMER_KINDS: Final = {int(kind): kind for kind in ConsumerKind}
_STRATEGIES: Final = {int(kind): PollingStrategy(kind) for kind in PollingKind}
# The size of a partitioning's value; None for "at least one byte".
_PARTITIONINGS: Final[dict[int, tuple[PartitioningKind | None, int | None]]] = {
    1: (PartitioningKind.BALANCED, 0),
    2: (PartitioningKind.PARTITION_ID, 4),
    3: (PartitioningKind.MESSAGES_KEY, None),
}
_NO_PARTITIONING: Final = (None, None)
COMPRESSIONS: Final = {int(compression): compression for compression in Compression}
_STATUSES: Final = {int(status): status for status in UserStatus}

_STRATEGY: Final = struct.Struct("<BQ")
_OPTIONAL_U32: Final = struct.Struct("<BI")


def read_consumer(reader: Reader) -> Consumer:
    kind = _CONSUMER_KINDS.get(reader.u8())
    if kind is None:
        raise InvalidCommand("there is no such kind of consumer")
    return Consumer(kind, reader.identifier())


def write_consumer(out: Writer, consumer: Consumer) -> None:
    out.u8(consumer.kind).identifier(consumer.id)


CONSUMER: Final = FieldKind(read_consumer, write_consumer)


def read_optional_u32(reader: Reader) -> int | None:
    flag, value = reader.unpack(_OPTIONAL_U32)
    return value if flag == 1 else None


def write_optional_u32(out: Writer, value: int | None) -> None:
    if value is None:
        out.pack(_OPTIONAL_U32, 0, 0)
    else:
        out.pack(_OPTIONAL_U32, 1, value)


OPTIONAL_U32: Final = FieldKind(read_optional_u32, write_optional_u32)


def partitioning_of(kind_code: int, value: bytes) -> Partitioning:
    """`InvalidCommand` for a wrong kind or size, `InvalidKeyLength` for a key of no bytes."""
    kind, size = _PARTITIONINGS.get(kind_code, _NO_PARTITIONING)
    if kind is None or size != len(value):
        if kind is None or size is not None:
            raise InvalidCommand(f"there is no partitioning {kind_code} with {len(value)} bytes")
        if not value:
            raise InvalidKeyLength("a messages key has at least one byte")
    return Partitioning(kind, value)


def write_partitioning(out: Writer, partitioning: Partitioning) -> None:
    out.u8(partitioning.kind).u8(len(partitioning.value)).bytes(partitioning.value)


def strategy_of(kind_code: int, value: int) -> PollingStrategy:
    """The strategy from its two fields."""
    strategy = _STRATEGIES.get(kind_code)
    if strategy is None:
        raise InvalidCommand(f"there is no polling strategy {kind_code}")
    return PollingStrategy(strategy.kind, value) if value else strategy


def write_strategy(out: Writer, strategy: PollingStrategy) -> None:
    out.pack(_STRATEGY, strategy.kind, strategy.value)


def answered_compression(out: Writer, compression: Compression) -> Compression:
    """The compression to put into an answer, in words that its reader understands.

    The published 0.8 clients fail to decode a topic that says LZ4 or ZSTD, so GZIP is said instead
    unless the writer was made for a reader that knows them all.
    """
    if compression > Compression.GZIP and not out.all_compressions:
        return Compression.GZIP
    return compression


def read_status(reader: Reader) -> UserStatus:
    status = _STATUSES.get(reader.u8())
    if status is None:
        raise InvalidCommand("there is no such user status")
    return status


STATUS: Final = FieldKind(read_status, Writer.u8)


_GLOBAL_FLAGS: Final = GlobalPermissions.__struct_fields__
_STREAM_FLAGS: Final = tuple(
    flag for flag in StreamPermissions.__struct_fields__ if flag != "topics"
)
_TOPIC_FLAGS: Final = TopicPermissions.__struct_fields__


def read_permissions(reader: Reader) -> Permissions:
    globally = _global_permissions(reader.bytes(len(_GLOBAL_FLAGS)))
    if not reader.u8():
        return Permissions(globally, NO_STREAMS)
    streams: dict[int, StreamPermissions] = {}
    another = True
    while another:
        stream_id = reader.u32()
        manage, read, manage_topics, read_topics, poll, send = map(bool, reader.bytes(6))
        streams[stream_id] = StreamPermissions(
            manage, read, manage_topics, read_topics, poll, send, _read_topics(reader)
        )
        another = reader.u8() == 1
    return Permissions(globally, streams)


@lru_cache(maxsize=1 << len(_GLOBAL_FLAGS))
def _global_permissions(flags: bytes) -> GlobalPermissions:
    """The value is frozen, so equal flags share one."""
    return GlobalPermissions(*map(bool, flags))


def _read_topics(reader: Reader) -> Mapping[int, TopicPermissions]:
    if not reader.u8():
        return NO_TOPICS
    topics: dict[int, TopicPermissions] = {}
    another = True
    while another:
        topic_id = reader.u32()
        topics[topic_id] = TopicPermissions(*map(bool, reader.bytes(len(_TOPIC_FLAGS))))
        another = reader.u8() == 1
    return topics


def write_permissions(out: Writer, permissions: Permissions) -> None:
    """Streams and topics leave in the order of their ids, so equal permissions are equal bytes."""
    _write_flags(out, permissions.globally, _GLOBAL_FLAGS)
    out.bool(bool(permissions.streams))
    streams_left = len(permissions.streams)
    for stream_id, stream in sorted(permissions.streams.items()):
        _write_flags(out.u32(stream_id), stream, _STREAM_FLAGS)
        out.bool(bool(stream.topics))
        topics_left = len(stream.topics)
        for topic_id, topic in sorted(stream.topics.items()):
            _write_flags(out.u32(topic_id), topic, _TOPIC_FLAGS)
            topics_left -= 1
            out.bool(topics_left > 0)
        streams_left -= 1
        out.bool(streams_left > 0)


def _write_flags(
    out: Writer,
    permissions: GlobalPermissions | StreamPermissions | TopicPermissions,
    names: tuple[str, ...],
) -> None:
    for name in names:
        out.bool(getattr(permissions, name))


def read_sized_permissions(reader: Reader) -> Permissions | None:
    """None after any flag but 1, whatever follows it: one published client adds filler there."""
    if reader.u8() != 1:
        return None
    size = reader.u32()
    start = reader.position
    permissions = read_permissions(reader)
    if reader.position - start != size:
        raise InvalidFormat(f"permissions of {reader.position - start} bytes claim to have {size}")
    return permissions


def write_sized_permissions(out: Writer, permissions: Permissions | None) -> None:
    """Only the flag when there are none: that is what the published clients send."""
    out.bool(permissions is not None)
    if permissions is not None:
        inner = Writer()
        write_permissions(inner, permissions)
        encoded = inner.getvalue()
        out.u32(len(encoded)).bytes(encoded)


SIZED_PERMISSIONS: Final = FieldKind(read_sized_permissions, write_sized_permissions)
