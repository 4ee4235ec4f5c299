"""Streams: listed, described, created, renamed, emptied, deleted."""

from borzoi.handlers.call import Call
from borzoi.handlers.topics import topic_info
from borzoi.metadata import queries
from borzoi.metadata.effects import Created
from borzoi.metadata.state import Stream
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    StreamDetails,
    StreamInfo,
    Streams,
    UpdateStream,
)


def get_stream(request: GetStream, call: Call) -> StreamDetails:
    stream = queries.stream(call.state, request.stream_id)
    topics = tuple(topic_info(stream.id, topic, call) for topic in stream.topics.in_order())
    return StreamDetails(
        id=stream.id,
        created_at=stream.created_at,
        size_bytes=sum(topic.size_bytes for topic in topics),
        messages_count=sum(topic.messages_count for topic in topics),
        name=stream.name,
        topics=topics,
    )


def get_streams(request: GetStreams, call: Call) -> Streams:
    return Streams(tuple(stream_info(stream, call) for stream in call.state.streams.in_order()))


def stream_info(stream: Stream, call: Call) -> StreamInfo:
    totals = call.partitions.stream_totals(stream)
    return StreamInfo(
        id=stream.id,
        created_at=stream.created_at,
        topics_count=len(stream.topics),
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
        name=stream.name,
    )


async def create_stream(request: CreateStream, call: Call) -> Created:
    return await call.create(request)


async def update_stream(request: UpdateStream, call: Call) -> None:
    await call.submit(request)


async def delete_stream(request: DeleteStream, call: Call) -> None:
    await call.submit(request)


async def purge_stream(request: PurgeStream, call: Call) -> None:
    await call.submit(request)
