"""Topics.

::

    GetTopic, DeleteTopic, PurgeTopic   identifier stream_id, identifier topic_id
    GetTopics                           identifier stream_id
    CreateTopic   identifier stream_id, u32 partitions_count, u8 compression, u64 message_expiry,
                  u64 max_topic_size, u8 replication_factor, name
    UpdateTopic   identifier stream_id, identifier topic_id, u8 compression, u64 message_expiry,
                  u64 max_topic_size, u8 replication_factor, name
                  (expiry, size, factor: 0 = as the server is configured)

    TopicInfo                     bytes
      u32 id                      0
      u64 created_at              4
      u32 partitions_count        12
      u64 message_expiry          16     µs; u64 max: never
      u8  compression             24
      u64 max_topic_size          25     u64 max: unlimited
      u8  replication_factor      33
      u64 size_bytes              34
      u64 messages_count          42
      name                        50
    TopicDetails  TopicInfo, then PartitionInfo × partitions_count
    Topics        TopicInfo × n, no count
"""

import struct
from typing import Final, Self

from msgspec.structs import astuple

from borzoi.model.errors import InvalidCommand, TooManyPartitions
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import PARTITIONS_PER_REQUEST_MAX, SERVER_DEFAULT
from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.contract import Details, Listing, Request
from borzoi.protocol.naming import OfStream, OfTopic
from borzoi.protocol.values import COMPRESSIONS, answered_compression

_TOPIC: Final = struct.Struct("<IQIQBQBQQ")
_SETTINGS: Final = struct.Struct("<BQQB")
assert _TOPIC.size == 50


class TopicInfo(Value):
    id: int
    created_at: int
    partitions_count: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    replication_factor: int
    size_bytes: int
    messages_count: int
    name: str

    def encode(self, out: Writer) -> None:
        fields = astuple(self)
        compression = answered_compression(out, self.compression)
        out.pack(_TOPIC, *fields[:4], compression, *fields[5:9]).name(self.name)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        numbers = reader.unpack(_TOPIC)
        fields = (*numbers[:4], _compression(numbers[4]), *numbers[5:], reader.name())
        return cls(*fields)


def _compression(code: int) -> Compression:
    compression = COMPRESSIONS.get(code)
    if compression is None:
        raise InvalidCommand(f"there is no compression algorithm {code}")
    return compression


class TopicDetails(Details):
    INFO, ITEM = TopicInfo, PartitionInfo
    id: int
    created_at: int
    message_expiry: int
    compression: Compression
    max_topic_size: int
    replication_factor: int
    size_bytes: int
    messages_count: int
    name: str
    partitions: tuple[PartitionInfo, ...]

    @property
    def partitions_count(self) -> int:
        return len(self.partitions)


class Topics(Listing):
    ITEM = TopicInfo
    topics: tuple[TopicInfo, ...]


class GetTopic(OfTopic):
    RESPONSE = TopicDetails


class GetTopics(OfStream):
    RESPONSE = Topics


class CreateTopic(Request):
    RESPONSE = TopicDetails
    stream_id: Identifier
    name: str
    partitions_count: int
    compression: Compression = Compression.NONE
    message_expiry: int = SERVER_DEFAULT
    max_topic_size: int = SERVER_DEFAULT
    replication_factor: int = SERVER_DEFAULT

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).u32(self.partitions_count)
        _write_settings(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        stream_id, partitions_count = reader.identifier(), reader.u32()
        numbers, name = reader.unpack(_SETTINGS), reader.name()
        # Published servers check the number of partitions before the compression.
        if numbers[0] not in COMPRESSIONS and partitions_count > PARTITIONS_PER_REQUEST_MAX:
            raise TooManyPartitions(f"{partitions_count} partitions in one request")
        return cls(stream_id, name, partitions_count, _compression(numbers[0]), *numbers[1:])


class DeleteTopic(OfTopic): ...


class UpdateTopic(Request):
    stream_id: Identifier
    topic_id: Identifier
    name: str
    compression: Compression = Compression.NONE
    message_expiry: int = SERVER_DEFAULT
    max_topic_size: int = SERVER_DEFAULT
    replication_factor: int = SERVER_DEFAULT

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id)
        _write_settings(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        stream_id, topic_id = reader.identifier(), reader.identifier()
        numbers, name = reader.unpack(_SETTINGS), reader.name()
        return cls(stream_id, topic_id, name, _compression(numbers[0]), *numbers[1:])


def _write_settings(out: Writer, request: CreateTopic | UpdateTopic) -> None:
    out.pack(
        _SETTINGS,
        request.compression,
        request.message_expiry,
        request.max_topic_size,
        request.replication_factor,
    ).name(request.name)


class PurgeTopic(OfTopic): ...
