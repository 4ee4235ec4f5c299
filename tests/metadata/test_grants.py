import pytest

from borzoi.metadata.grants import by_id
from borzoi.metadata.sealed import SealedCreateUser
from borzoi.model.users import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic

READS = TopicPermissions(read_topic=True)
FLAGS = GlobalPermissions(read_users=True)


@pytest.fixture
def bob(control):
    """A user with entries for stream 0, its topics 0 and 1, and stream 3, which is not there."""
    control.do(CreateStream("s"))
    control.do(CreateTopic("s", "t", 1))
    stream = StreamPermissions(manage_stream=True, topics={0: READS, 1: READS})
    control.do(
        SealedCreateUser(
            "bob", "h", permissions=Permissions(FLAGS, {0: stream, 3: StreamPermissions()})
        )
    )
    control.do(SealedCreateUser("eve", "h"))
    return control.state.users[1]


def test_entries_are_kept_by_id_in_whatever_order_they_came():
    stream = StreamPermissions(topics={2: READS, 1: READS})
    ordered = by_id(Permissions(FLAGS, {7: stream, 3: stream}))
    assert ordered == Permissions(FLAGS, {7: stream, 3: stream})
    assert list(ordered.streams) == [3, 7]
    assert list(ordered.streams[3].topics) == [1, 2]


def test_no_entries_need_no_order():
    assert by_id(None) is None
    assert by_id(Permissions(FLAGS)) == Permissions(FLAGS)


def test_entries_end_with_their_stream(control, bob):
    """The published servers keep them, and after a restart they grant access to the next stream."""
    control.do(DeleteStream("s"))
    assert bob.permissions == Permissions(FLAGS, {3: StreamPermissions()})
    assert control.do(CreateStream("another")).created_id == 0
    assert 0 not in bob.permissions.streams


def test_entries_end_with_their_topic(control, bob):
    """The published servers keep them, and they grant access to the next topic at once."""
    control.do(DeleteTopic("s", "t"))
    assert bob.permissions.streams[0] == StreamPermissions(manage_stream=True, topics={1: READS})
    assert bob.permissions.streams[3] == StreamPermissions()


def test_users_without_such_entries_stay_as_they_are(control, bob):
    control.do(CreateStream("other"))
    control.do(CreateTopic("other", "t", 1))
    control.do(CreateTopic("s", "t1", 1))
    control.do(CreateTopic("s", "t2", 1))
    before = bob.permissions
    for command in (DeleteTopic("other", "t"), DeleteTopic("s", "t2"), DeleteStream("other")):
        control.do(command)
    assert bob.permissions is before
