import pytest

from borzoi.metadata.effects import ApplyResult, DeletedStream, PurgedStream
from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.state import Stream
from borzoi.model.errors import InvalidFormat, LimitReached, StreamNameTaken, StreamNotFound
from borzoi.model.limits import STREAMS_MAX
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    PurgeStream,
    StreamInfo,
    UpdateStream,
)
from borzoi.protocol.commands.topics import CreateTopic


def test_streams_are_numbered_from_zero_and_remember_when_they_began(control):
    first = control.do(CreateStream("s1"))
    assert first == ApplyResult(StreamInfo(0, control.now, 0, 0, 0, "s1"))
    second = control.do(CreateStream("S1"))
    assert second == ApplyResult(StreamInfo(1, control.now, 0, 0, 0, "S1"))
    births = control.state.births
    assert control.state.streams[1] == Stream(1, "S1", created_at=control.now, birth=births)


def test_a_birth_number_is_never_given_out_again(control):
    control.do(CreateStream("s"))
    before = control.state.streams[0].birth
    control.do(DeleteStream("s"))
    control.do(CreateStream("s"))
    assert control.state.streams[0].birth > before


def test_a_taken_name_is_refused(control):
    control.do(CreateStream("s1"))
    control.refuse(StreamNameTaken, CreateStream("s1"))


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_a_name_that_cannot_travel_is_refused(control, name):
    control.refuse(InvalidFormat, CreateStream(name))
    control.do(CreateStream("s1"))
    control.refuse(InvalidFormat, UpdateStream(0, name))


def test_freed_ids_come_back_most_recent_first(control):
    """As recorded: of seven streams 2 and then 1 go, the next three get 1, 2 and 7."""
    for number in range(7):
        control.do(CreateStream(f"s{number}"))
    control.do(DeleteStream(2))
    control.do(DeleteStream("s1"))
    assert [control.do(CreateStream(name)).created_id for name in ("n1", "n2", "n3")] == [1, 2, 7]


def test_no_more_streams_than_can_be_addressed(control):
    for number in range(STREAMS_MAX):
        control.state.streams.add(str(number), Stream(number, str(number), 0))
    control.refuse(LimitReached, CreateStream("one more"))
    control.do(DeleteStream("77"))
    assert control.do(CreateStream("one more")).created_id == 77


def test_a_renamed_stream_is_found_by_its_new_name_only(control):
    control.do(CreateStream("old"))
    control.do(UpdateStream("old", "new"))
    assert control.state.streams.ids == {"new": 0}
    assert control.state.streams[0].name == "new"


def test_renaming_to_the_same_name_changes_nothing(control):
    control.do(CreateStream("s1"))
    assert control.do(UpdateStream(0, "s1")) == ApplyResult()


def test_renaming_to_a_taken_name_is_refused_but_a_missing_stream_is_told_first(control):
    control.do(CreateStream("s1"))
    control.do(CreateStream("s2"))
    control.refuse(StreamNameTaken, UpdateStream(0, "s2"))
    control.refuse(StreamNotFound, UpdateStream(99, "s2"))


def test_deleting_a_stream_takes_everything_in_it(control):
    control.do(CreateStream("s1"))
    control.do(CreateTopic(0, "t0", 2))
    control.do(CreateTopic(0, "t1", 1))
    control.do(CreateConsumerGroup(0, 1, "g"))
    control.do(JoinGroup(0, 1, 0, 5))
    assert control.do(DeleteStream("s1")) == ApplyResult(
        effects=(DeletedStream(0, ((0, (0, 1)), (1, (0,)))),)
    )
    assert control.state.streams == {}
    assert control.state.memberships == {}


def test_purging_names_every_partition_and_changes_nothing(control):
    control.do(CreateStream("s1"))
    control.do(CreateTopic(0, "t0", 2))
    assert control.do(PurgeStream(0)).effects == (PurgedStream(0, ((0, (0, 1)),)),)


@pytest.mark.parametrize("command", [DeleteStream("nope"), PurgeStream(3), UpdateStream(3, "n")])
def test_a_missing_stream_is_not_found(control, command):
    control.refuse(StreamNotFound, command)
