"""Permissions as JSON.

::

    {"global": {10 flags}, "streams": null | {"<stream id>": {6 flags, "topics":
        null | {"<topic id>": {4 flags}}}}}

Every flag is required, in both directions; no streams and no topics are ``null``.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from borzoi.model.limits import U32_MAX
from borzoi.model.users import (
    NO_STREAMS,
    NO_TOPICS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

U32: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=U32_MAX)]


class GlobalFlags(msgspec.Struct):
    manage_servers: bool
    read_servers: bool
    manage_users: bool
    read_users: bool
    manage_streams: bool
    read_streams: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool


class TopicFlags(msgspec.Struct):
    manage_topic: bool
    read_topic: bool
    poll_messages: bool
    send_messages: bool


class StreamFlags(msgspec.Struct):
    manage_stream: bool
    read_stream: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
    topics: dict[U32, TopicFlags] | None = None


class PermissionsDocument(msgspec.Struct):
    globally: GlobalFlags = msgspec.field(name="global")
    streams: dict[U32, StreamFlags] | None = None


def permissions_document(permissions: Permissions | None) -> PermissionsDocument | None:
    if permissions is None:
        return None
    return PermissionsDocument(
        GlobalFlags(**_flags(permissions.globally)),
        {
            stream_id: StreamFlags(**_flags(stream), topics=_topics_document(stream.topics))
            for stream_id, stream in sorted(permissions.streams.items())
        }
        or None,
    )


def _topics_document(topics: Mapping[int, TopicPermissions]) -> dict[int, TopicFlags] | None:
    return {
        topic_id: TopicFlags(**_flags(topic)) for topic_id, topic in sorted(topics.items())
    } or None


def _flags(
    permissions: GlobalPermissions | StreamPermissions | TopicPermissions,
) -> dict[str, bool]:
    flags = permissions.__struct_fields__
    return {flag: getattr(permissions, flag) for flag in flags if flag != "topics"}


def permissions_of(document: PermissionsDocument | None) -> Permissions | None:
    if document is None:
        return None
    return Permissions(
        GlobalPermissions(*msgspec.structs.astuple(document.globally)),
        {stream_id: _stream(flags) for stream_id, flags in (document.streams or {}).items()}
        or NO_STREAMS,
    )


def _stream(flags: StreamFlags) -> StreamPermissions:
    topics = {
        topic_id: TopicPermissions(*msgspec.structs.astuple(topic))
        for topic_id, topic in (flags.topics or {}).items()
    }
    return StreamPermissions(**{**msgspec.structs.asdict(flags), "topics": topics or NO_TOPICS})
