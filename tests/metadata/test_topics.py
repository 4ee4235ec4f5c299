from typing import Any

import pytest

from borzoi.metadata.effects import ApplyResult, CreatedPartitions, DeletedTopic, PurgedTopic
from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.state import PartitionRecord, Topic
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.model.errors import (
    InvalidCommand,
    InvalidFormat,
    InvalidTopicSize,
    LimitReached,
    StreamNotFound,
    TooManyPartitions,
    TopicNameTaken,
    TopicNotFound,
)
from borzoi.model.limits import NEVER, TOPICS_PER_STREAM_MAX, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    PurgeTopic,
    TopicDetails,
    UpdateTopic,
)

MIB = 1024 * 1024
DEFAULTS = TopicDefaults(
    segment_size=MIB, message_expiry=7_000, max_topic_size=10 * MIB, replication_factor=2
)
RESOLVED: dict[str, Any] = {
    "message_expiry": NEVER,
    "max_topic_size": UNLIMITED,
    "replication_factor": 1,
}


@pytest.fixture
def stream(control):
    control.do(CreateStream("s"))
    return control.state.streams[0]


def test_zeros_become_what_the_server_is_configured_for():
    assert resolved(CreateTopic(0, "t", 1), DEFAULTS) == CreateTopic(
        0, "t", 1, Compression.NONE, 7_000, 10 * MIB, 2
    )


def test_zeros_of_an_update_are_resolved_as_well():
    assert resolved(UpdateTopic(0, 0, "t"), DEFAULTS) == UpdateTopic(
        0, 0, "t", Compression.NONE, 7_000, 10 * MIB, 2
    )


def test_what_is_asked_for_is_kept():
    asked = CreateTopic(0, "t", 1, Compression.GZIP, NEVER, MIB, 3)
    assert resolved(asked, DEFAULTS) == asked


def test_without_configuration_a_topic_keeps_everything():
    topic = resolved(CreateTopic(0, "t", 1), TopicDefaults(segment_size=MIB))
    assert (topic.message_expiry, topic.max_topic_size, topic.replication_factor) == (
        NEVER,
        UNLIMITED,
        1,
    )


@pytest.mark.parametrize("size", [1, MIB - 1])
def test_a_topic_smaller_than_a_segment_is_refused(size):
    with pytest.raises(InvalidTopicSize):
        resolved(CreateTopic(0, "t", 1, max_topic_size=size), DEFAULTS)
    with pytest.raises(InvalidTopicSize):
        resolved(UpdateTopic(0, 0, "t", max_topic_size=size), DEFAULTS)


def test_a_topic_is_created_with_its_partitions(control, stream):
    outcome = control.do(CreateTopic("s", "t", 2, Compression.GZIP, 9, 4096, 3))
    at = control.now
    empty = tuple(PartitionInfo(number, at, 0, 0, 0, 0) for number in (0, 1))
    details = TopicDetails(0, at, 9, Compression.GZIP, 4096, 3, 0, 0, "t", empty)
    assert outcome == ApplyResult(details, (CreatedPartitions(0, 0, (0, 1)),))
    partitions = {0: PartitionRecord(0, at), 1: PartitionRecord(1, at)}
    assert stream.topics[0] == Topic(
        0, "t", at, Compression.GZIP, 9, 4096, 3, partitions, birth=control.state.births
    )


def test_a_topic_without_partitions_still_needs_its_directory(control, stream):
    assert control.do(CreateTopic(0, "t", 0)).effects == (CreatedPartitions(0, 0, ()),)


def test_the_count_of_partitions_is_judged_before_the_stream_is_looked_up(control):
    control.refuse(TooManyPartitions, CreateTopic("nope", "t", 1001, **RESOLVED))
    control.refuse(StreamNotFound, CreateTopic("nope", "t", 1000, **RESOLVED))


@pytest.mark.parametrize("unresolved", RESOLVED)
def test_an_unresolved_default_never_reaches_the_state(control, stream, unresolved):
    control.do(CreateTopic(0, "t", 1))
    values = {**RESOLVED, unresolved: 0}
    control.refuse(InvalidCommand, CreateTopic(0, "u", 1, **values))
    control.refuse(InvalidCommand, UpdateTopic(0, 0, "u", **values))


def test_a_taken_name_is_refused_within_the_stream_only(control, stream):
    control.do(CreateTopic(0, "t", 1))
    control.refuse(TopicNameTaken, CreateTopic(0, "t", 1, **RESOLVED))
    control.do(CreateStream("other"))
    assert control.do(CreateTopic("other", "t", 1)).created_id == 0


def test_an_empty_name_is_refused(control, stream):
    control.refuse(InvalidFormat, CreateTopic(0, "", 1, **RESOLVED))


def test_freed_ids_come_back_most_recent_first(control, stream):
    """As recorded: of ten topics 1 and then 4 go, the next three get 4, 1 and 10."""
    for number in range(10):
        control.do(CreateTopic(0, f"t{number}", 1))
    control.do(DeleteTopic(0, 1))
    control.do(DeleteTopic("s", "t4"))
    ids = [control.do(CreateTopic(0, name, 1)).created_id for name in ("re1", "re2", "re3")]
    assert ids == [4, 1, 10]


def test_no_more_topics_than_can_be_addressed(control, stream):
    for number in range(TOPICS_PER_STREAM_MAX):
        topic = Topic(number, str(number), 0, Compression.NONE, 1, 1, 1)
        stream.topics.add(topic.name, topic)
    control.refuse(LimitReached, CreateTopic(0, "one more", 1, **RESOLVED))


def test_an_update_changes_everything_but_id_partitions_and_age(control, stream):
    control.do(CreateTopic(0, "t", 1))
    created_at = control.now
    control.do(UpdateTopic("s", "t", "u", Compression.ZSTD, 5, 2048, 9))
    partitions = {0: PartitionRecord(0, created_at)}
    expected = Topic(0, "u", created_at, Compression.ZSTD, 5, 2048, 9, partitions)
    expected.birth = control.state.births
    assert stream.topics[0] == expected
    assert stream.topics.ids == {"u": 0}


def test_an_update_may_keep_the_name_but_not_take_another_topics(control, stream):
    control.do(CreateTopic(0, "t", 1))
    control.do(CreateTopic(0, "u", 1))
    control.do(UpdateTopic(0, 0, "t", Compression.GZIP))
    control.refuse(TopicNameTaken, UpdateTopic(0, 0, "u", **RESOLVED))
    control.refuse(InvalidFormat, UpdateTopic(0, 0, "", **RESOLVED))


def test_deleting_a_topic_takes_partitions_groups_and_memberships(control):
    control.topic(3)
    control.do(JoinGroup(0, 0, 0, 5))
    assert control.do(DeleteTopic(0, 0)).effects == (DeletedTopic(0, 0, (0, 1, 2)),)
    assert control.state.streams[0].topics == {}
    assert control.state.memberships == {}


def test_purging_names_every_partition_and_changes_nothing(control):
    control.topic(3)
    assert control.do(PurgeTopic("s", "t")).effects == (PurgedTopic(0, 0, (0, 1, 2)),)


@pytest.mark.parametrize("kind", [DeleteTopic, PurgeTopic])
def test_a_missing_topic_or_stream_is_not_found(control, stream, kind):
    control.refuse(TopicNotFound, kind(0, "nope"))
    control.refuse(StreamNotFound, kind(9, 0))
    control.refuse(TopicNotFound, UpdateTopic(0, 3, "t", **RESOLVED))
    control.refuse(StreamNotFound, UpdateTopic(9, 0, "t", **RESOLVED))
