"""Users and what they may do: flags for everything, for one stream, for one topic of it."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import msgspec

from borzoi.model.value import Value


class UserStatus(IntEnum):
    ACTIVE = 1
    INACTIVE = 2


class GlobalPermissions(Value):
    """Flags that hold for every stream; the order is the order on the wire."""

    manage_servers: bool = False
    read_servers: bool = False
    manage_users: bool = False
    read_users: bool = False
    manage_streams: bool = False
    read_streams: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False


class TopicPermissions(Value):
    """Flags that hold for one topic."""

    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


NO_TOPICS: Mapping[int, TopicPermissions] = MappingProxyType({})


class StreamPermissions(Value):
    """Flags that hold for one stream, and for some of its topics by numeric id."""

    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: Mapping[int, TopicPermissions] = msgspec.field(default_factory=lambda: NO_TOPICS)


NO_STREAMS: Mapping[int, StreamPermissions] = MappingProxyType({})


class Permissions(Value):
    """All of one user's permissions; a user without any is denied everything that needs one."""

    globally: GlobalPermissions = GlobalPermissions()
    streams: Mapping[int, StreamPermissions] = msgspec.field(default_factory=lambda: NO_STREAMS)


#: What root has.
ALL_PERMISSIONS = Permissions(
    GlobalPermissions(**dict.fromkeys(GlobalPermissions.__struct_fields__, True))
)
