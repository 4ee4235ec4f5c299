"""The rules, compared with the published table and with what a published server answered."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from borzoi.metadata.permissions import FREE, RULES, Rule, allows, covers
from borzoi.model.users import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.values import read_sized_permissions

READ_TOPICS_G = "manage_streams, read_streams, manage_topics, read_topics"
READ_TOPICS_S = "manage_stream, read_stream, manage_topics, read_topics"

# fmt: off
#: rule, global flags, flags of the stream, flags of the topic, commands.
TABLE = [
    (Rule.SERVER_INFO, "manage_servers, read_servers", "", "", [10, 21, 22]),
    (Rule.READ_USERS, "manage_users, read_users", "", "", [31, 32]),
    (Rule.MANAGE_USERS, "manage_users", "", "", [33, 34, 35, 36, 37]),
    (Rule.READ_STREAMS, "manage_streams, read_streams", "", "", [201]),
    (Rule.READ_STREAM, "manage_streams, read_streams", "manage_stream, read_stream", "", [200]),
    (Rule.MANAGE_STREAMS, "manage_streams", "", "", [202]),
    (Rule.MANAGE_STREAM, "manage_streams", "manage_stream", "", [203, 204, 205]),
    (Rule.READ_TOPICS, READ_TOPICS_G, READ_TOPICS_S, "", [301]),
    (Rule.READ_TOPIC, READ_TOPICS_G, READ_TOPICS_S, "manage_topic, read_topic",
     [300, 600, 601, 602, 603, 604, 605]),
    (Rule.CREATE_TOPIC, "manage_streams, manage_topics", "manage_stream, manage_topics", "",
     [302]),
    (Rule.MANAGE_TOPIC, "manage_streams, manage_topics", "manage_stream, manage_topics",
     "manage_topic", [303, 304, 305, 402, 403, 503]),
    (Rule.POLL, "poll_messages, read_topics, manage_topics, read_streams, manage_streams",
     "poll_messages, manage_stream, read_stream, manage_topics, read_topics",
     "manage_topic, read_topic, poll_messages", [100, 120, 121, 122]),
    (Rule.APPEND, "send_messages, manage_streams, manage_topics",
     "send_messages, manage_stream, manage_topics", "manage_topic, send_messages", [101, 102]),
    (Rule.LOGGED_IN, "", "", "", [11, 12, 20, 39, 41, 42, 43]),
    (Rule.ANYONE, "", "", "", [1, 38, 44]),
]
# fmt: on
RULE_OF = {code: rule for rule, *_, codes in TABLE for code in codes}
NEEDS_PERMISSION = [rule for rule in Rule if rule not in FREE]


def flags(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def names(kind: type) -> list[str]:
    return [field.name for field in fields(kind) if field.name != "topics"]


def stream_with(name: str) -> StreamPermissions:
    flag: dict[str, Any] = {name: True}
    return StreamPermissions(**flag)


def test_the_table_knows_every_rule_and_every_command():
    assert [rule for rule, *_ in TABLE if rule not in FREE] == list(RULES)
    assert {rule for rule, *_ in TABLE} == set(Rule)
    assert set(RULE_OF) == set(Code)


@pytest.mark.parametrize(
    ("rule", "globally", "stream", "topic"), [row[:4] for row in TABLE if row[0] not in FREE]
)
def test_a_flag_satisfies_a_rule_exactly_when_the_table_says_so(rule, globally, stream, topic):
    for name in names(GlobalPermissions):
        granted = Permissions(GlobalPermissions(**{name: True}))
        assert allows(rule, granted, 7, 5) is (name in flags(globally)), name
        assert allows(rule, granted) is (name in flags(globally)), name
    for name in names(StreamPermissions):
        granted = Permissions(streams={7: stream_with(name)})
        assert allows(rule, granted, 7, 5) is (name in flags(stream)), name
        assert not allows(rule, granted, 8, 5)
        assert not allows(rule, granted)
    for name in names(TopicPermissions):
        topics = {5: TopicPermissions(**{name: True})}
        granted = Permissions(streams={7: StreamPermissions(topics=topics)})
        assert allows(rule, granted, 7, 5) is (name in flags(topic)), name
        assert not allows(rule, granted, 7, 6)
        assert not allows(rule, granted, 7)
        assert not allows(rule, granted, 8, 5)


def test_every_flag_of_a_rule_exists():
    for wanted in RULES.values():
        assert set(wanted.globally) <= set(names(GlobalPermissions))
        assert set(wanted.stream) <= set(names(StreamPermissions))
        assert set(wanted.topic) <= set(names(TopicPermissions))


@pytest.mark.parametrize("rule", sorted(FREE))
def test_some_requests_need_no_permission(rule):
    assert allows(rule, None)
    assert allows(rule, Permissions())


@pytest.mark.parametrize("rule", NEEDS_PERMISSION)
def test_root_may_everything_and_who_has_no_permissions_nothing(rule):
    assert allows(rule, ALL_PERMISSIONS, 3, 4)
    assert not allows(rule, None, 3, 4)
    assert not allows(rule, Permissions(), 3, 4)


RECORDED = json.loads(Path(__file__).with_name("recorded_permissions.json").read_text())


@pytest.mark.parametrize("recorded", RECORDED["sets"], ids=lambda recorded: recorded["name"])
def test_the_rules_decide_as_the_published_server_did(recorded):
    permissions = read_sized_permissions(Reader(bytes.fromhex(recorded["permissions"])))
    ours = "".join(
        "-"
        if recorded["answers"][number] == "-"
        else "A"
        if allows(RULE_OF[code], permissions, stream_id, topic_id)
        else "D"
        for number, (code, stream_id, topic_id) in enumerate(RECORDED["requests"])
    )
    assert ours == recorded["answers"]


def test_the_recording_is_as_large_as_it_claims():
    assert len(RECORDED["requests"]) == 51
    assert len(RECORDED["sets"]) == 18


GLOBAL_FLAGS = [flag.name for flag in fields(GlobalPermissions)]


def globally(*flags: str, **streams: StreamPermissions) -> Permissions:
    return Permissions(
        GlobalPermissions(**dict.fromkeys(flags, True)),
        {int(name[1:]): entry for name, entry in streams.items()},
    )


@pytest.mark.parametrize("flag", GLOBAL_FLAGS)
def test_every_global_flag_can_be_granted_by_its_holder_and_not_without_any(flag):
    assert covers(globally(flag), globally(flag))
    assert covers(ALL_PERMISSIONS, globally(flag))
    assert not covers(None, globally(flag))
    assert not covers(Permissions(), globally(flag))
    assert covers(None, globally(flag), already=globally(flag)), "nothing is added"


@pytest.mark.parametrize("flag", GLOBAL_FLAGS)
def test_who_manages_users_cannot_grant_itself_anything_else(flag):
    manager = globally("manage_users", "read_users")
    assert covers(manager, globally(flag), already=manager) == (
        flag in ("manage_users", "read_users")
    )


def test_what_is_compared_is_what_the_flags_allow():
    reads_one = globally(s1=StreamPermissions(read_stream=True))
    assert covers(globally("manage_streams"), reads_one)
    assert covers(globally("read_streams"), reads_one)
    assert not covers(globally("send_messages"), reads_one)
    assert not covers(globally(s2=StreamPermissions(manage_stream=True)), reads_one)
    assert not covers(reads_one, globally("read_streams")), "one stream is not all of them"
    sends_to_topic = globally(
        s1=StreamPermissions(topics={4: TopicPermissions(send_messages=True)})
    )
    assert covers(globally(s1=StreamPermissions(send_messages=True)), sends_to_topic)
    assert not covers(
        globally(s1=StreamPermissions(topics={5: TopicPermissions(True)})), sends_to_topic
    )
    assert not covers(sends_to_topic, globally(s1=StreamPermissions(send_messages=True)))
    assert covers(None, None)
    assert covers(None, Permissions())


def test_a_flag_that_no_rule_tells_from_a_lesser_one_is_held_by_name():
    assert not covers(globally("read_servers"), globally("manage_servers"))
    assert covers(globally("manage_servers"), globally("read_servers"))
