"""Streams: listed, described, created, renamed, emptied, deleted."""

from collections.abc import Coroutine
from typing import Any

from borzoi.handlers.call import Call
from borzoi.handlers.topics import topic_info
from borzoi.handlers.totals import partitions_of_stream, partitions_of_topic, with_totals
from borzoi.metadata import queries
from borzoi.metadata.state import Stream
from borzoi.model.value import like
from borzoi.protocol.commands.streams import (
    GetStream,
    GetStreams,
    StreamDetails,
    StreamInfo,
    Streams,
)
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.shard.partition_table import Totals


def get_stream(
    request: GetStream, call: Call
) -> StreamDetails | Coroutine[Any, Any, StreamDetails]:
    stream = queries.stream(call.state, request.stream_id)
    topics = list(stream.topics.in_order())
    return with_totals(
        [partitions_of_topic(stream.id, topic) for topic in topics],
        lambda totals: stream_details(stream, tuple(map(topic_info, topics, totals))),
        call,
    )


def stream_details(stream: Stream, topics: tuple[TopicInfo, ...]) -> StreamDetails:
    return like(
        StreamDetails,
        stream,
        size_bytes=sum(topic.size_bytes for topic in topics),
        messages_count=sum(topic.messages_count for topic in topics),
        topics=topics,
    )


def get_streams(request: GetStreams, call: Call) -> Streams | Coroutine[Any, Any, Streams]:
    streams = list(call.state.streams.in_order())
    return with_totals(
        [partitions_of_stream(stream) for stream in streams],
        lambda totals: Streams(tuple(map(stream_info, streams, totals))),
        call,
    )


def stream_info(stream: Stream, totals: Totals) -> StreamInfo:
    return like(
        StreamInfo,
        stream,
        topics_count=len(stream.topics),
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
    )
