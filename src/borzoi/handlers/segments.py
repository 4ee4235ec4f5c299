"""Segments: the oldest sealed ones deleted on request."""

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.model.namespace import Namespace
from borzoi.partitions import operations
from borzoi.partitions.futures import arrived
from borzoi.protocol.commands.segments import DeleteSegments


async def delete_segments(request: DeleteSegments, call: Call) -> None:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    namespace = Namespace(stream.id, topic.id, request.partition_id)
    operation = operations.RemoveSegments(request.segments_count)
    await arrived(call.partitions.run(namespace, operation, now=call.now()))
