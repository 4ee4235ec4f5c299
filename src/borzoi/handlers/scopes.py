"""What a request is about, as numbers: the stream and the topic its permission is asked for.

A scope resolves before it is known whether the caller may know: missing and denied are told apart,
as the published servers do. `OWN` means the caller asks about itself and needs no permission.
"""

from typing import Any, Final, TypeAlias

from borzoi.handlers.call import Call
from borzoi.metadata import queries

Scope: TypeAlias = tuple[int | None, int | None]

OWN: Final[Scope] = (-1, -1)
EVERYWHERE: Final[Scope] = (None, None)


def everywhere(request: Any, call: Call) -> Scope:
    return EVERYWHERE


def stream_of(request: Any, call: Call) -> Scope:
    return queries.stream(call.state, request.stream_id).id, None


def topic_of(request: Any, call: Call) -> Scope:
    stream = queries.stream(call.state, request.stream_id)
    return stream.id, queries.topic_of(stream, request.topic_id).id


def partition_of(request: Any, call: Call) -> Scope:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    queries.partition_of(topic, request.partition_id)
    return stream.id, topic.id


def user_unless_own(request: Any, call: Call) -> Scope:
    return OWN if queries.user(call.state, request.user_id).id == call.user_id else EVERYWHERE
