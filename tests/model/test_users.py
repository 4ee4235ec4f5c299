import pytest
from msgspec.structs import astuple

from borzoi.model import users


def test_the_states_have_their_numbers_of_the_wire() -> None:
    assert {status.name: status.value for status in users.UserStatus} == {
        "ACTIVE": 1,
        "INACTIVE": 2,
    }


def test_flags_stand_in_the_order_of_the_wire() -> None:
    assert list(users.GlobalPermissions.__struct_fields__) == [
        "manage_servers",
        "read_servers",
        "manage_users",
        "read_users",
        "manage_streams",
        "read_streams",
        "manage_topics",
        "read_topics",
        "poll_messages",
        "send_messages",
    ]
    assert list(users.StreamPermissions.__struct_fields__) == [
        "manage_stream",
        "read_stream",
        "manage_topics",
        "read_topics",
        "poll_messages",
        "send_messages",
        "topics",
    ]
    assert list(users.TopicPermissions.__struct_fields__) == [
        "manage_topic",
        "read_topic",
        "poll_messages",
        "send_messages",
    ]


def test_nothing_is_allowed_until_it_is_said() -> None:
    nothing = users.Permissions()
    assert not any(astuple(nothing.globally))
    assert nothing.streams == users.NO_STREAMS == {}
    assert users.StreamPermissions().topics == users.NO_TOPICS == {}


def test_root_is_allowed_everything() -> None:
    assert all(astuple(users.ALL_PERMISSIONS.globally))
    assert users.ALL_PERMISSIONS.streams == {}


def test_shared_permissions_cannot_be_modified() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        users.ALL_PERMISSIONS.globally.manage_servers = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        users.NO_STREAMS[0] = users.StreamPermissions()  # type: ignore[index]
