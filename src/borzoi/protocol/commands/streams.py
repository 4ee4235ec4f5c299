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

from borzoi.model.identifiers import Identifier
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.protocol.contract import Details, Listing, Request
from borzoi.protocol.layout import IDENTIFIER, NAME, Named
from borzoi.protocol.naming import NoFields, OfName, OfStream


class StreamInfo(Named):
    STRUCT = struct.Struct("<IQIQQ")
    id: int
    created_at: int
    topics_count: int
    size_bytes: int
    messages_count: int
    name: str


class StreamDetails(Details):
    INFO, ITEM = StreamInfo, TopicInfo
    id: int
    created_at: int
    size_bytes: int
    messages_count: int
    name: str
    topics: tuple[TopicInfo, ...]

    @property
    def topics_count(self) -> int:
        return len(self.topics)


class Streams(Listing):
    ITEM = StreamInfo
    streams: tuple[StreamInfo, ...]


class GetStream(OfStream):
    RESPONSE = StreamDetails


class GetStreams(NoFields):
    RESPONSE = Streams


class CreateStream(OfName):
    RESPONSE = StreamDetails


class DeleteStream(OfStream): ...


class UpdateStream(Request):
    LAYOUT = (IDENTIFIER, NAME)
    stream_id: Identifier
    name: str


class PurgeStream(OfStream): ...
