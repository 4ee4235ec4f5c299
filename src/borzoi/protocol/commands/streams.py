"""Streams.

::

    GetStream, DeleteStream, PurgeStream   identifier stream_id
    GetStreams                             no fields
    CreateStream                           name
    UpdateStream                           identifier stream_id, name

    StreamInfo     u32 id, u64 created_at, u32 topics_count, u64 size_bytes, u64 messages_count,
                   name
    StreamDetails  StreamInfo, then TopicInfo × topics_count
    Streams        StreamInfo × n, no count
"""

import struct
from typing import ClassVar, Final, Self

from borzoi.model.errors import InvalidFormat
from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.topics import TopicInfo, Topics
from borzoi.protocol.contract import Listing, RequestValue, Response
from borzoi.protocol.naming import NoFields, OfName, OfStream

_STREAM: Final = struct.Struct("<IQIQQ")


class StreamInfo(Value):
    id: int
    created_at: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str

    def encode(self, out: Writer) -> None:
        _write_stream(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        stream_id, created_at, topics_count, size_bytes, messages_count = reader.unpack(_STREAM)
        return cls(stream_id, created_at, topics_count, size_bytes, messages_count, reader.name())


class StreamDetails(Value):
    id: int
    created_at: int
    size_bytes: int
    messages_count: int
    name: str
    topics: tuple[TopicInfo, ...]

    @property
    def topics_count(self) -> int:
        return len(self.topics)

    def encode(self, out: Writer) -> None:
        _write_stream(out, self)
        out.all_of(self.topics)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        stream_id, created_at, topics_count, size_bytes, messages_count = reader.unpack(_STREAM)
        name = reader.name()
        topics = Topics.decode(reader).topics
        if len(topics) != topics_count:
            raise InvalidFormat(f"{len(topics)} topics follow a stream that claims {topics_count}")
        return cls(stream_id, created_at, size_bytes, messages_count, name, topics)


def _write_stream(out: Writer, stream: StreamInfo | StreamDetails) -> None:
    out.pack(
        _STREAM,
        stream.id,
        stream.created_at,
        stream.topics_count,
        stream.size_bytes,
        stream.messages_count,
    ).name(stream.name)


class Streams(Listing):
    ITEM = StreamInfo
    streams: tuple[StreamInfo, ...]


class GetStream(OfStream):
    CODE = Code.GET_STREAM
    RESPONSE: ClassVar[type[Response] | None] = StreamDetails


class GetStreams(NoFields):
    CODE = Code.GET_STREAMS
    RESPONSE: ClassVar[type[Response] | None] = Streams


class CreateStream(OfName):
    CODE = Code.CREATE_STREAM
    RESPONSE: ClassVar[type[Response] | None] = StreamDetails


class DeleteStream(OfStream):
    CODE = Code.DELETE_STREAM


class UpdateStream(RequestValue):
    CODE = Code.UPDATE_STREAM
    stream_id: Identifier
    name: str

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).name(self.name)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.name())


class PurgeStream(OfStream):
    CODE = Code.PURGE_STREAM
