"""Permissions as text, in the forms of the published command line. Pure.

::

    global     manage_servers,read_streams   or short: m_srv,r_str
    stream     STREAM[:permission,…][#TOPIC[:permission,…]]…       ids are numbers
"""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from borzoi.model.errors import InvalidFormat
from borzoi.model.users import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)

SHORT: Final = {
    "manage_servers": "m_srv",
    "read_servers": "r_srv",
    "manage_users": "m_usr",
    "read_users": "r_usr",
    "manage_streams": "m_str",
    "read_streams": "r_str",
    "manage_stream": "m_str",
    "read_stream": "r_str",
    "manage_topics": "m_top",
    "read_topics": "r_top",
    "manage_topic": "m_top",
    "read_topic": "r_top",
    "poll_messages": "p_msg",
    "send_messages": "s_msg",
}
GLOBAL: Final = GlobalPermissions.__struct_fields__
STREAM: Final = tuple(one for one in StreamPermissions.__struct_fields__ if one != "topics")
TOPIC: Final = TopicPermissions.__struct_fields__


def permissions_of(globally: str | None, streams: Iterable[str]) -> Permissions | None:
    """Parse permissions; None when none were given."""
    texts = list(streams)
    if globally is None and not texts:
        return None
    granted = _flags(globally or "", GLOBAL, "global")
    return Permissions(GlobalPermissions(**granted), dict(_stream(text) for text in texts))


def _flags(text: str, allowed: tuple[str, ...], where: str) -> dict[str, bool]:
    by_name = {name: name for name in allowed} | {SHORT[name]: name for name in allowed}
    found = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        if word not in by_name:
            raise InvalidFormat(
                f"{word!r} is not a {where} permission; allowed are {', '.join(allowed)}"
            )
        found[by_name[word]] = True
    return found


def _stream(text: str) -> tuple[int, StreamPermissions]:
    head, *topics = text.split("#")
    stream_id, _, words = head.partition(":")
    flags = _flags(words, STREAM, "stream")
    inner = dict(_topic(one, text) for one in topics)
    granted: Any = flags
    return _number(stream_id, text), replace(StreamPermissions(topics=inner), **granted)


def _topic(part: str, text: str) -> tuple[int, TopicPermissions]:
    topic_id, _, words = part.partition(":")
    return _number(topic_id, text), TopicPermissions(**_flags(words, TOPIC, "topic"))


def _number(text: str, whole: str) -> int:
    if not text.isdecimal():
        raise InvalidFormat(f"{whole!r} has {text!r} where the id of a stream or topic belongs")
    return int(text)
