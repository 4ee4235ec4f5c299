"""Users and what they may do: flags for everything, for one stream, for one topic of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from types import MappingProxyType


class UserStatus(IntEnum):
    ACTIVE = 1
    INACTIVE = 2


@dataclass(frozen=True, slots=True)
class GlobalPermissions:
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


@dataclass(frozen=True, slots=True)
class TopicPermissions:
    """Flags that hold for one topic."""

    manage_topic: bool = False
    read_topic: bool = False
    poll_messages: bool = False
    send_messages: bool = False


NO_TOPICS: Mapping[int, TopicPermissions] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StreamPermissions:
    """Flags that hold for one stream, and for some of its topics by numeric id."""

    manage_stream: bool = False
    read_stream: bool = False
    manage_topics: bool = False
    read_topics: bool = False
    poll_messages: bool = False
    send_messages: bool = False
    topics: Mapping[int, TopicPermissions] = field(default_factory=lambda: NO_TOPICS)


NO_STREAMS: Mapping[int, StreamPermissions] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Permissions:
    """All of one user's permissions; a user without any is denied everything that needs one."""

    globally: GlobalPermissions = GlobalPermissions()
    streams: Mapping[int, StreamPermissions] = field(default_factory=lambda: NO_STREAMS)


#: What root has.
ALL_PERMISSIONS = Permissions(
    GlobalPermissions(**{flag.name: True for flag in fields(GlobalPermissions)})
)
