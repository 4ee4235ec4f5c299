"""May this user do this here? One rule per kind of request, and the flags that satisfy it.

A rule passes when any of its flags is set: globally, for the stream, or for the topic. A user
without permissions is denied everything that needs one.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple

from borzoi.model.users import Permissions


class Rule(IntEnum):
    """The permission that a request needs.

    An integer because the rule of every request is looked up: other enums hash their names.
    """

    ANYONE = auto()
    LOGGED_IN = auto()
    SERVER_INFO = auto()
    READ_USERS = auto()
    MANAGE_USERS = auto()
    READ_STREAMS = auto()
    READ_STREAM = auto()
    MANAGE_STREAMS = auto()
    MANAGE_STREAM = auto()
    READ_TOPICS = auto()
    READ_TOPIC = auto()
    CREATE_TOPIC = auto()
    MANAGE_TOPIC = auto()
    POLL = auto()
    APPEND = auto()


class Flags(NamedTuple):
    """The names of the flags that satisfy a rule, by where they are set."""

    globally: tuple[str, ...]
    stream: tuple[str, ...] = ()
    topic: tuple[str, ...] = ()


#: Flags that no rule tells from a lesser one yet; holding the lesser one is not holding them.
INDISTINCT: Final = ("manage_servers",)
#: The id of no stream and no topic.
UNNAMED: Final = -1
#: Rules that need no permission; the session determines whether it is logged in.
FREE: Final = frozenset({Rule.ANYONE, Rule.LOGGED_IN})

_READS_TOPICS_GLOBALLY = ("manage_streams", "read_streams", "manage_topics", "read_topics")
_READS_TOPICS_OF_STREAM = ("manage_stream", "read_stream", "manage_topics", "read_topics")

# fmt: off
RULES: Final[Mapping[Rule, Flags]] = MappingProxyType({
    Rule.SERVER_INFO:    Flags(("manage_servers", "read_servers")),
    Rule.READ_USERS:     Flags(("manage_users", "read_users")),
    Rule.MANAGE_USERS:   Flags(("manage_users",)),
    Rule.READ_STREAMS:   Flags(("manage_streams", "read_streams")),
    Rule.READ_STREAM:    Flags(("manage_streams", "read_streams"),
                               ("manage_stream", "read_stream")),
    Rule.MANAGE_STREAMS: Flags(("manage_streams",)),
    Rule.MANAGE_STREAM:  Flags(("manage_streams",),
                               ("manage_stream",)),
    Rule.READ_TOPICS:    Flags(_READS_TOPICS_GLOBALLY,
                               _READS_TOPICS_OF_STREAM),
    Rule.READ_TOPIC:     Flags(_READS_TOPICS_GLOBALLY,
                               _READS_TOPICS_OF_STREAM,
                               ("manage_topic", "read_topic")),
    Rule.CREATE_TOPIC:   Flags(("manage_streams", "manage_topics"),
                               ("manage_stream", "manage_topics")),
    Rule.MANAGE_TOPIC:   Flags(("manage_streams", "manage_topics"),
                               ("manage_stream", "manage_topics"),
                               ("manage_topic",)),
    Rule.POLL:           Flags((*_READS_TOPICS_GLOBALLY, "poll_messages"),
                               (*_READS_TOPICS_OF_STREAM, "poll_messages"),
                               ("manage_topic", "read_topic", "poll_messages")),
    Rule.APPEND:         Flags(("manage_streams", "manage_topics", "send_messages"),
                               ("manage_stream", "manage_topics", "send_messages"),
                               ("manage_topic", "send_messages")),
})
# fmt: on


def allows(
    rule: Rule,
    permissions: Permissions | None,
    stream_id: int | None = None,
    topic_id: int | None = None,
) -> bool:
    """Whether the permissions satisfy the rule for the stream and the topic concerned."""
    if rule in FREE:
        return True
    if permissions is None:
        return False
    flags = RULES[rule]
    if _any_set(permissions.globally, flags.globally):
        return True
    if stream_id is None or (stream := permissions.streams.get(stream_id)) is None:
        return False
    if _any_set(stream, flags.stream):
        return True
    if topic_id is None or (topic := stream.topics.get(topic_id)) is None:
        return False
    return _any_set(topic, flags.topic)


def covers(
    held: Permissions | None, wanted: Permissions | None, already: Permissions | None = None
) -> bool:
    """Whether `wanted` allows nothing that neither `held` nor `already` allows.

    Compared is what the rules let through, not flag by flag: a user that manages all streams may
    let another read one of them.
    """
    if wanted is None:
        return True
    for flag in INDISTINCT:
        if getattr(wanted.globally, flag) and not any(
            holder is not None and getattr(holder.globally, flag) for holder in (held, already)
        ):
            return False
    return all(
        allows(rule, held, *place) or allows(rule, already, *place)
        for place in _places(wanted)
        for rule in RULES
        if allows(rule, wanted, *place)
    )


def _places(permissions: Permissions) -> Iterator[tuple[int, int]]:
    """Every stream and topic that the permissions name, and one of each that they do not."""
    yield UNNAMED, UNNAMED
    for stream_id, stream in permissions.streams.items():
        yield stream_id, UNNAMED
        for topic_id in stream.topics:
            yield stream_id, topic_id


def _any_set(granted: object, names: tuple[str, ...]) -> bool:
    # A plain loop: this runs once per request, and a generator costs more than what it saves.
    for name in names:  # noqa: SIM110
        if getattr(granted, name):
            return True
    return False
