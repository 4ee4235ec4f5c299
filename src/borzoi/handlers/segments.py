"""Segments: the oldest sealed ones deleted on request."""

from borzoi.handlers.call import Call
from borzoi.handlers.scopes import partition_of
from borzoi.model.namespace import Namespace
from borzoi.protocol.commands.segments import DeleteSegments


async def delete_segments(request: DeleteSegments, call: Call) -> None:
    stream_id, topic_id = partition_of(request, call)
    if stream_id is not None and topic_id is not None:
        namespace = Namespace(stream_id, topic_id, request.partition_id)
        await call.partitions.delete_segments(namespace, request.segments_count)
