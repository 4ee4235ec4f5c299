import pytest

from borzoi.cli.permissions import GLOBAL, STREAM, TOPIC, permissions_of
from borzoi.model.errors import InvalidFormat
from borzoi.model.users import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)


def test_without_texts_there_are_none():
    assert permissions_of(None, ()) is None
    assert permissions_of("", ()) == Permissions()


@pytest.mark.parametrize("text", ["manage_servers,read_streams", "m_srv, r_str"])
def test_global_ones_have_long_and_short_names(text):
    expected = GlobalPermissions(manage_servers=True, read_streams=True)
    assert permissions_of(text, ()) == Permissions(expected)


def test_streams_and_their_topics():
    found = permissions_of(None, ["1:m_str,r_top#2:p_msg#3", "4"])
    assert found is not None
    assert found.streams == {
        1: StreamPermissions(
            manage_stream=True,
            read_topics=True,
            topics={2: TopicPermissions(poll_messages=True), 3: TopicPermissions()},
        ),
        4: StreamPermissions(),
    }


def test_every_permission_can_be_given():
    everything = permissions_of(",".join(GLOBAL), [f"1:{','.join(STREAM)}#2:{','.join(TOPIC)}"])
    assert everything is not None
    assert all(getattr(everything.globally, name) for name in GLOBAL)
    assert all(getattr(everything.streams[1], name) for name in STREAM)
    assert all(getattr(everything.streams[1].topics[2], name) for name in TOPIC)


@pytest.mark.parametrize(
    ("globally", "streams", "sentence"),
    [
        ("fly", (), "'fly' is not a global permission; allowed are manage_servers"),
        (None, ("1:m_srv",), "'m_srv' is not a stream permission"),
        (None, ("1#2:r_str",), "'r_str' is not a topic permission"),
        (None, ("shop:r_str",), "'shop' where the id of a stream or topic belongs"),
        (None, ("1#orders",), "'orders' where the id of a stream or topic belongs"),
    ],
)
def test_what_is_no_permission_is_named(globally, streams, sentence):
    with pytest.raises(InvalidFormat, match=sentence):
        permissions_of(globally, streams)
