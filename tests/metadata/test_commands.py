"""The encoding of every command is pinned: the log of today must be readable tomorrow."""

from collections.abc import Mapping
from inspect import signature
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from borzoi.metadata.commands import (
    LOGGED,
    VOLATILE,
    InternalCode,
    decode_command,
    encode_command,
    is_logged,
)
from borzoi.metadata.groups import (
    ClientGone,
    CompleteRevocation,
    ExpireRevocations,
    JoinGroup,
    LeaveGroup,
)
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.tokens import ExpireTokens
from borzoi.model.errors import InvalidCommand, StateCorrupted
from borzoi.model.limits import U64_MAX
from borzoi.model.topics import Compression
from borzoi.model.users import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    UpdatePermissions,
    UpdateUser,
)

PERMISSIONS = Permissions(
    GlobalPermissions(read_users=True),
    {3: StreamPermissions(read_stream=True, topics={7: TopicPermissions(send_messages=True)})},
)
GLOBAL_FLAGS = [field.name for field in fields(GlobalPermissions)]
WRITTEN_PERMISSIONS = {
    "globally": {name: name == "read_users" for name in GLOBAL_FLAGS},
    "streams": {
        3: {
            "manage_stream": False,
            "read_stream": True,
            "manage_topics": False,
            "read_topics": False,
            "poll_messages": False,
            "send_messages": False,
            "topics": {
                7: {
                    "manage_topic": False,
                    "read_topic": False,
                    "poll_messages": False,
                    "send_messages": True,
                }
            },
        }
    },
}
TOPIC_SETTINGS = {
    "compression": 2,
    "message_expiry": 5,
    "max_topic_size": U64_MAX,
    "replication_factor": 1,
}

# fmt: off
WRITTEN: list[tuple[int, Any, Any]] = [
    (33, SealedCreateUser("bob", "h", UserStatus.INACTIVE, PERMISSIONS),
     {"username": "bob", "password_hash": "h", "status": 2, "permissions": WRITTEN_PERMISSIONS}),
    (34, DeleteUser("bob"), {"user_id": "bob"}),
    (35, UpdateUser(1, None, UserStatus.ACTIVE), {"user_id": 1, "username": None, "status": 1}),
    (36, UpdatePermissions(1, PERMISSIONS), {"user_id": 1, "permissions": WRITTEN_PERMISSIONS}),
    (37, SealedChangePassword(1, "h"), {"user_id": 1, "password_hash": "h"}),
    (42, SealedCreatePersonalAccessToken("tok", "h", 9, 3),
     {"name": "tok", "token_hash": "h", "expiry_at": 9, "tokens_max": 3}),
    (43, DeletePersonalAccessToken("tok"), {"name": "tok"}),
    (60001, ExpireTokens(9), {"before": 9}),
    (202, CreateStream("s"), {"name": "s"}),
    (203, DeleteStream("7"), {"stream_id": "7"}),
    (204, UpdateStream(7, "s"), {"stream_id": 7, "name": "s"}),
    (205, PurgeStream(7), {"stream_id": 7}),
    (302, CreateTopic(0, "t", 3, Compression.GZIP, 5, U64_MAX, 1),
     {"stream_id": 0, "name": "t", "partitions_count": 3, **TOPIC_SETTINGS}),
    (303, DeleteTopic(0, 1), {"stream_id": 0, "topic_id": 1}),
    (304, UpdateTopic(0, 1, "t", Compression.GZIP, 5, U64_MAX, 1),
     {"stream_id": 0, "topic_id": 1, "name": "t", **TOPIC_SETTINGS}),
    (305, PurgeTopic(0, 1), {"stream_id": 0, "topic_id": 1}),
    (402, CreatePartitions(0, 1, 2), {"stream_id": 0, "topic_id": 1, "partitions_count": 2}),
    (403, DeletePartitions(0, 1, 2), {"stream_id": 0, "topic_id": 1, "partitions_count": 2}),
    (602, CreateConsumerGroup(0, 1, "g"), {"stream_id": 0, "topic_id": 1, "name": "g"}),
    (603, DeleteConsumerGroup(0, 1, 2), {"stream_id": 0, "topic_id": 1, "group_id": 2}),
    (604, JoinGroup(0, 1, 2, 3),
     {"stream_id": 0, "topic_id": 1, "group_id": 2, "client_id": 3}),
    (605, LeaveGroup(0, 1, 2, 3),
     {"stream_id": 0, "topic_id": 1, "group_id": 2, "client_id": 3}),
    (60002, ClientGone(3), {"client_id": 3}),
    (60003, CompleteRevocation(0, 1, 2, 4),
     {"stream_id": 0, "topic_id": 1, "group_id": 2, "partition_id": 4}),
    (60004, ExpireRevocations(9), {"before": 9}),
]
# fmt: on


@pytest.mark.parametrize(("code", "command", "written"), WRITTEN)
def test_a_command_is_written_as_it_always_was(code, command, written):
    assert encode_command(command) == (code, msgspec.msgpack.encode([1, written]))
    assert decode_command(code, msgspec.msgpack.encode([1, written])) == command


def test_every_command_is_pinned():
    assert {code for code, _, _ in WRITTEN} == set(LOGGED) | set(VOLATILE)
    assert not set(LOGGED) & set(VOLATILE)


def test_the_numbers_of_internal_commands_are_no_wire_numbers():
    assert not set(InternalCode) & set(Code)


def test_membership_is_never_logged():
    logged = [code for code, command, _ in WRITTEN if is_logged(command)]
    assert sorted(logged) == sorted(LOGGED)


_TEXT = st.text(max_size=20)


def _values_of(hint):
    """Any value a field of this type may hold, within what MessagePack can carry."""
    if hint is int:
        return st.integers(0, U64_MAX)
    if hint is str:
        return _TEXT
    if hint is bool:
        return st.booleans()
    if hint is NoneType:
        return st.none()
    if get_origin(hint) is UnionType:
        return st.one_of([_values_of(option) for option in get_args(hint)])
    if get_origin(hint) is Mapping:
        key, value = get_args(hint)
        return st.dictionaries(_values_of(key), _values_of(value), max_size=3)
    if isinstance(hint, type) and issubclass(hint, UserStatus | Compression):
        return st.sampled_from(hint)
    return _instances(hint)


def _instances(kind):
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: _values_of(hints[name]) for name in signature(kind).parameters})


@given(st.one_of([_instances(kind) for kind in (*LOGGED.values(), *VOLATILE.values())]))
def test_commands_survive_the_way_through_bytes(command):
    code, body = encode_command(command)
    assert decode_command(code, body) == command
    assert decode_command(code, memoryview(body)) == command


@pytest.mark.parametrize(
    "command",
    [
        CreateUser("bob", "s3cret"),
        ChangePassword(1, "s3cret", "s3cret"),
        CreatePersonalAccessToken("s3cret"),
    ],
)
def test_a_command_with_a_secret_has_no_encoding_but_its_sealed_one(command):
    with pytest.raises(InvalidCommand) as refusal:
        encode_command(command)
    assert "s3cret" not in str(refusal.value)


def test_an_unknown_number_is_damage():
    with pytest.raises(StateCorrupted, match="number 38"):
        decode_command(38, b"\x92\x01\x80")


def test_another_version_is_refused_rather_than_guessed_at():
    with pytest.raises(StateCorrupted, match="version 2"):
        decode_command(202, msgspec.msgpack.encode([2, {"name": "s"}]))


@given(st.sampled_from([*LOGGED, *VOLATILE]), st.binary(max_size=40))
def test_garbage_is_damage_and_nothing_else(code, body):
    with pytest.raises(StateCorrupted):
        decode_command(code, body)


@given(st.sampled_from(WRITTEN), st.data())
def test_a_torn_body_is_damage(pinned, data):
    code, command, _ = pinned
    _, body = encode_command(command)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(StateCorrupted):
        decode_command(code, body[:cut])


@given(st.sampled_from(WRITTEN), st.data())
def test_a_changed_byte_makes_another_command_or_damage(pinned, data):
    code, command, _ = pinned
    body = bytearray(encode_command(command)[1])
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert type(decode_command(code, bytes(body))) is type(command)
    except StateCorrupted:
        pass


def test_a_name_that_is_no_text_is_damage():
    with pytest.raises(StateCorrupted):
        decode_command(202, b"\x92\x01\x81\xa4name\xa1\xff")
