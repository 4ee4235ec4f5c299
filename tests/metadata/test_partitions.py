import pytest

from borzoi.metadata.effects import CreatedPartitions, DeletedPartitions, ForgetPolled
from borzoi.metadata.partitions import check_partitions_count, new_partitions
from borzoi.metadata.state import PartitionRecord
from borzoi.model.errors import (
    InvalidPartitionsCount,
    StreamNotFound,
    TooManyPartitions,
    TopicNotFound,
)
from borzoi.model.limits import PARTITIONS_PER_TOPIC_MAX, U32_MAX
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.topics import CreateTopic


@pytest.mark.parametrize(
    ("command", "possible", "impossible"),
    [
        (CreateTopic, (0, 1000), (1001,)),
        (CreatePartitions, (1, 1000), (0, 1001)),
        (DeletePartitions, (1, U32_MAX), (0,)),
    ],
)
def test_an_impossible_count_is_refused_before_anything_is_looked_up(
    control, command, possible, impossible
):
    for count in possible:
        check_partitions_count(command("nope", "t", count))
    for count in impossible:
        with pytest.raises(TooManyPartitions):
            check_partitions_count(command("nope", "t", count))
        control.refuse(TooManyPartitions, command("nope", "t", count))


def test_new_partitions_follow_the_last(control):
    topic = control.topic(1)
    outcome = control.do(CreatePartitions("s", "t", 2))
    assert outcome.effects == (CreatedPartitions(0, 0, (1, 2)),)
    assert topic.partitions[2] == PartitionRecord(2, created_at=control.now)


def test_the_highest_partitions_are_deleted_and_their_numbers_come_back(control):
    topic = control.topic(3)
    assert control.do(DeletePartitions(0, 0, 2)).effects == (DeletedPartitions(0, 0, (1, 2)),)
    assert list(topic.partitions) == [0]
    assert control.do(CreatePartitions(0, 0, 1)).effects == (CreatedPartitions(0, 0, (1,)),)


def test_a_topic_emptied_of_partitions_numbers_new_ones_from_zero(control):
    topic = control.topic(3)
    control.do(DeletePartitions(0, 0, 3))
    control.do(CreatePartitions(0, 0, 2))
    assert list(topic.partitions) == [0, 1]


def test_no_more_partitions_are_deleted_than_exist(control):
    control.topic(3)
    control.refuse(InvalidPartitionsCount, DeletePartitions(0, 0, 4))


def test_no_more_partitions_than_can_be_addressed(control):
    topic = control.topic(0)
    topic.partitions = new_partitions(0, PARTITIONS_PER_TOPIC_MAX - 1, 0)
    control.refuse(TooManyPartitions, CreatePartitions(0, 0, 2))
    control.do(CreatePartitions(0, 0, 1))


@pytest.mark.parametrize("kind", [CreatePartitions, DeletePartitions])
def test_a_missing_topic_or_stream_is_not_found(control, kind):
    control.topic(1)
    control.refuse(TopicNotFound, kind(0, "nope", 1))
    control.refuse(StreamNotFound, kind("nope", 0, 1))


def test_groups_share_out_anew_when_partitions_come_and_go(control):
    """As recorded: two members over 3, 5 and then 2 partitions."""
    control.topic(3)
    control.join(1)
    control.join(2)
    assert control.hands() == [(0, [0, 1]), (1, [2])]
    outcome = control.do(CreatePartitions(0, 0, 2))
    assert outcome.effects[1:] == (ForgetPolled(0, 0, 0, (1, 2)),)
    assert control.hands() == [(0, [0, 2, 4]), (1, [1, 3])]
    control.do(DeletePartitions(0, 0, 3))
    assert control.hands() == [(0, [0]), (1, [1])]


def test_groups_have_nothing_when_the_last_partition_goes(control):
    """The published servers leave the old list in place here, and polls then fail."""
    control.topic(2)
    control.join(1)
    outcome = control.do(DeletePartitions(0, 0, 2))
    assert outcome.effects == (DeletedPartitions(0, 0, (0, 1)),)
    assert control.hands() == [(0, [])]
