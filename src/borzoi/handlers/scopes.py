"""The scope of a request: the stream and the topic that its permission is needed for.

A scope keeps the identifiers as they were given. They are resolved where the permission is checked,
on arrival and again when a change's turn comes. `OWN` means that the request concerns the
caller itself and needs no permission.
"""

from typing import Any, Final, TypeAlias

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.model.identifiers import Identifier

Scope: TypeAlias = tuple[Identifier | None, Identifier | None]

OWN: Final[Scope] = (-1, -1)
EVERYWHERE: Final[Scope] = (None, None)


def everywhere(request: Any, call: Call) -> Scope:
    return EVERYWHERE


def stream_of(request: Any, call: Call) -> Scope:
    return request.stream_id, None


def topic_of(request: Any, call: Call) -> Scope:
    return request.stream_id, request.topic_id


def partition_of(request: Any, call: Call) -> Scope:
    # A missing partition is reported before a missing permission, as the published servers do.
    queries.partition(call.state, request.stream_id, request.topic_id, request.partition_id)
    return request.stream_id, request.topic_id


def user_unless_own(request: Any, call: Call) -> Scope:
    return OWN if queries.user(call.state, request.user_id).id == call.user_id else EVERYWHERE
