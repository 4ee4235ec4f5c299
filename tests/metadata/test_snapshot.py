import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.metadata import snapshot
from borzoi.metadata.commands import Command
from borzoi.metadata.groups import JoinGroup, LeaveGroup
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken, SealedCreateUser
from borzoi.metadata.state import Metadata
from borzoi.metadata.users import root_creation
from borzoi.model.errors import StateCorrupted
from borzoi.model.topics import Compression
from borzoi.model.users import Permissions, StreamPermissions, TopicPermissions
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import DeleteUser

A, B, C = 101, 102, 103


@pytest.fixture
def lived(control):
    """A bit of everything: freed ids, tokens, entries for streams, members, promises."""
    control.topic(4)
    for name in ("gone", "kept", "gone2"):
        control.do(CreateStream(name))
    control.do(DeleteStream("gone"))
    control.do(DeleteStream("gone2"))
    permissions = Permissions(
        streams={5: StreamPermissions(), 2: StreamPermissions(topics={1: TopicPermissions()})}
    )
    for name in ("eve", "bob"):
        control.do(SealedCreateUser(name, f"hash of {name}", permissions=permissions))
    control.do(DeleteUser("eve"))
    control.do(SealedCreatePersonalAccessToken("zzz", "1", 7), user_id=2)
    control.do(SealedCreatePersonalAccessToken("aaa", "2"), user_id=2)
    for client_id in (A, B, C):
        control.join(client_id)
    control.do(LeaveGroup(0, 0, 0, A))
    control.do(LeaveGroup(0, 0, 0, B))
    control.do(JoinGroup(0, 0, 0, A))
    return control


@pytest.fixture(scope="module")
def lived_once():
    """The bytes of a small state with members and a promise, the same for every example."""
    commands: list[Command] = [
        root_creation("root", "hash"),
        CreateStream("s"),
        CreateTopic(0, "t", 2, Compression.NONE, 1, 1, 1),
        CreateConsumerGroup(0, 0, "g"),
        SealedCreatePersonalAccessToken("token", "abc", 7),
        JoinGroup(0, 0, 0, A),
        JoinGroup(0, 0, 0, B),
    ]
    state = Metadata()
    for at, command in enumerate(commands):
        apply(state, Entry(at, 0, command))
    return snapshot.encode(state, members=True)


def test_a_snapshot_with_members_is_the_whole_state(lived):
    copy = snapshot.decode(snapshot.encode(lived.state, members=True))
    assert copy == lived.state
    assert copy.streams.freed == lived.state.streams.freed == [1, 3]
    assert copy.streams.ids == lived.state.streams.ids
    group, copied = (state.streams[0].topics[0].groups[0] for state in (lived.state, copy))
    assert copied.pending == group.pending != {}
    assert copied.members.freed == group.members.freed == [0]


def test_a_snapshot_without_members_is_what_a_restart_leaves(lived):
    copy = snapshot.decode(snapshot.encode(lived.state))
    group = copy.streams[0].topics[0].groups[0]
    assert (group.members, group.pending, group.members.freed) == ({}, {}, [])
    assert copy.memberships == {}
    assert snapshot.encode(copy) == snapshot.encode(lived.state)
    assert copy.users == lived.state.users


def test_a_copy_goes_on_as_the_original_does(lived):
    copy = snapshot.decode(snapshot.encode(lived.state, members=True))
    lived.do(CreateStream("next"))
    lived.do(JoinGroup(0, 0, 0, B))
    original, lived.state = lived.state, copy
    lived.now -= 2
    lived.do(CreateStream("next"))
    lived.do(JoinGroup(0, 0, 0, B))
    assert snapshot.encode(original, members=True) == snapshot.encode(copy, members=True)


def test_the_digest_tells_states_apart(lived):
    before = snapshot.digest(lived.state)
    with_members = snapshot.digest(lived.state, members=True)
    lived.do(LeaveGroup(0, 0, 0, C))
    assert snapshot.digest(lived.state) == before
    assert snapshot.digest(lived.state, members=True) != with_members
    lived.do(CreateStream("next"))
    assert snapshot.digest(lived.state) != before


def test_the_format_is_pinned(control):
    control.topic(2)
    control.do(SealedCreatePersonalAccessToken("token", "abc", 7))
    control.do(JoinGroup(0, 0, 0, A))
    control.do(JoinGroup(0, 0, 0, B))
    version, state = msgspec.msgpack.decode(
        snapshot.encode(control.state, members=True), strict=False
    )
    assert version == 1
    permissions = state["users"][0].pop("permissions")
    assert set(permissions["globally"].values()) == {True}
    assert permissions["streams"] == {}
    members = [
        {"slot": 0, "id": 0, "client_id": A, "partitions": [0, 1]},
        {"slot": 1, "id": 1, "client_id": B, "partitions": []},
    ]
    topic = {
        "id": 0,
        "name": "t",
        "created_at": 3,
        "compression": 1,
        "message_expiry": 2**64 - 1,
        "max_topic_size": 2**64 - 1,
        "replication_factor": 1,
        "partitions": [3, 3],
        "groups": [{"id": 0, "name": "g", "members": members, "pending": [[1, 1, 7]], "birth": 4}],
        "freed_groups": [],
        "birth": 3,
    }
    token = {"name": "token", "token_hash": "abc", "expiry_at": 7}
    assert state == {
        "streams": [
            {
                "id": 0,
                "name": "s",
                "created_at": 2,
                "topics": [topic],
                "freed_topics": [],
                "birth": 2,
            }
        ],
        "freed_streams": [],
        "users": [
            {
                "id": 0,
                "username": "iggy",
                "password_hash": "hash of root",
                "status": 1,
                "created_at": 1,
                "tokens": [token],
                "birth": 1,
            }
        ],
        "freed_users": [],
        "births": 4,
    }


def test_an_empty_state_has_a_snapshot():
    assert snapshot.decode(snapshot.encode(Metadata())) == Metadata()


def test_another_version_is_refused_rather_than_guessed_at():
    with pytest.raises(StateCorrupted, match="version 2"):
        snapshot.decode(msgspec.msgpack.encode([2, {}]))


@given(st.binary(max_size=100))
def test_garbage_is_damage_and_nothing_else(data):
    with pytest.raises(StateCorrupted):
        snapshot.decode(data)


def test_a_readable_snapshot_of_an_impossible_state_is_damage(lived):
    lived.state.streams[0].topics[0].message_expiry = 0
    with pytest.raises(StateCorrupted, match="unresolved"):
        snapshot.decode(snapshot.encode(lived.state))
    lived.state.streams[0].topics[0].message_expiry = 1
    lived.state.streams[2].name = "s"
    with pytest.raises(StateCorrupted, match="twice"):
        snapshot.decode(snapshot.encode(lived.state))


def test_a_name_that_is_no_text_is_damage(control):
    control.do(CreateStream("stream"))
    with pytest.raises(StateCorrupted):
        snapshot.decode(snapshot.encode(control.state).replace(b"stream\xaa", b"str\xffam\xaa"))


@given(st.data())
def test_a_changed_byte_makes_another_sound_state_or_damage(lived_once, data):
    body = bytearray(lived_once)
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        snapshot.decode(bytes(body)).check()
    except StateCorrupted:
        pass


def test_a_snapshot_from_before_births_opens(control):
    control.topic(2)
    version, state = msgspec.msgpack.decode(snapshot.encode(control.state), strict=False)

    def without_births(value):
        if isinstance(value, dict):
            return {k: without_births(v) for k, v in value.items() if k not in ("birth", "births")}
        return [without_births(v) for v in value] if isinstance(value, list) else value

    old = snapshot.decode(msgspec.msgpack.encode((version, without_births(state))))
    assert old.births == old.streams[0].birth == old.users[0].birth == 0
    control.state = old
    control.do(CreateStream("next"))
    assert old.streams[1].birth == 1


def test_a_birth_number_is_given_out_once(control):
    control.topic(1)
    control.state.streams[0].birth = control.state.users[0].birth
    with pytest.raises(StateCorrupted):
        control.state.check()
    control.state.streams[0].birth = control.state.births + 1
    with pytest.raises(StateCorrupted):
        control.state.check()
