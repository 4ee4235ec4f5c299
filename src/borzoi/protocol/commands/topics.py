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
from typing import ClassVar, Final, Self

from borzoi.model.errors import InvalidCommand, InvalidFormat, TooManyPartitions
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import PARTITIONS_PER_REQUEST_MAX, SERVER_DEFAULT
from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.contract import Listing, RequestValue, Response
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
        _write_topic(out, self)

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


class TopicDetails(Value):
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

    def encode(self, out: Writer) -> None:
        _write_topic(out, self)
        out.all_of(self.partitions)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        topic = TopicInfo.decode(reader)
        partitions = reader.all_of(PartitionInfo.decode)
        if len(partitions) != topic.partitions_count:
            raise InvalidFormat(
                f"{len(partitions)} partitions follow a topic that claims {topic.partitions_count}"
            )
        return cls.of(topic, partitions)

    @classmethod
    def of(cls, topic: TopicInfo, partitions: tuple[PartitionInfo, ...]) -> Self:
        return cls(
            topic.id,
            topic.created_at,
            topic.message_expiry,
            topic.compression,
            topic.max_topic_size,
            topic.replication_factor,
            topic.size_bytes,
            topic.messages_count,
            topic.name,
            partitions,
        )


def _write_topic(out: Writer, topic: TopicInfo | TopicDetails) -> None:
    out.pack(
        _TOPIC,
        topic.id,
        topic.created_at,
        topic.partitions_count,
        topic.message_expiry,
        answered_compression(out, topic.compression),
        topic.max_topic_size,
        topic.replication_factor,
        topic.size_bytes,
        topic.messages_count,
    ).name(topic.name)


class Topics(Listing):
    ITEM = TopicInfo
    topics: tuple[TopicInfo, ...]


class GetTopic(OfTopic):
    CODE = Code.GET_TOPIC
    RESPONSE: ClassVar[type[Response] | None] = TopicDetails


class GetTopics(OfStream):
    CODE = Code.GET_TOPICS
    RESPONSE: ClassVar[type[Response] | None] = Topics


class CreateTopic(RequestValue):
    CODE = Code.CREATE_TOPIC
    RESPONSE: ClassVar[type[Response] | None] = TopicDetails
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


class DeleteTopic(OfTopic):
    CODE = Code.DELETE_TOPIC


class UpdateTopic(RequestValue):
    CODE = Code.UPDATE_TOPIC
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


class PurgeTopic(OfTopic):
    CODE = Code.PURGE_TOPIC
