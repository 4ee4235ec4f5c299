import pytest

from borzoi.metadata import queries
from borzoi.metadata.effects import ApplyResult, CheckRevocations, DeletedGroup, ForgetPolled
from borzoi.metadata.groups import (
    ClientGone,
    CompleteRevocation,
    ExpireRevocations,
    JoinGroup,
    LeaveGroup,
)
from borzoi.metadata.state import GroupAddress, Revocation
from borzoi.model.errors import (
    GroupNameTaken,
    GroupNotFound,
    InvalidFormat,
    MemberNotFound,
    StreamNotFound,
    TopicNotFound,
)
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup, GroupMember
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.topics import CreateTopic

A, B, C, D = 101, 102, 103, 104


@pytest.fixture
def group(control):
    """Group 0 of a topic with six partitions."""
    return control.topic(6).groups[0]


def complete(control, *partition_ids):
    for partition_id in partition_ids:
        assert control.do(CompleteRevocation(0, 0, 0, partition_id)) == ApplyResult()


def test_groups_are_numbered_from_zero_and_freed_ids_come_back(control):
    control.topic(1)
    assert [control.do(CreateConsumerGroup(0, 0, name)).created_id for name in "GH"] == [1, 2]
    control.do(DeleteConsumerGroup("s", "t", "g"))
    control.do(DeleteConsumerGroup("s", "t", 1))
    assert [control.do(CreateConsumerGroup(0, 0, name)).created_id for name in "xyz"] == [1, 0, 3]


def test_a_taken_or_impossible_name_is_refused(control, group):
    control.refuse(GroupNameTaken, CreateConsumerGroup(0, 0, "g"))
    control.refuse(InvalidFormat, CreateConsumerGroup(0, 0, ""))


@pytest.mark.parametrize(
    "kind",
    [
        lambda stream, topic, _: CreateConsumerGroup(stream, topic, "new"),
        DeleteConsumerGroup,
        lambda stream, topic, group: JoinGroup(stream, topic, group, A),
        lambda stream, topic, group: LeaveGroup(stream, topic, group, A),
    ],
)
def test_what_is_missing_is_named(control, group, kind):
    control.refuse(StreamNotFound, kind(9, 0, 0))
    control.refuse(TopicNotFound, kind(0, 9, 0))
    if not isinstance(kind(0, 0, 9), CreateConsumerGroup):
        control.refuse(GroupNotFound, kind(0, 0, 9))


def test_a_deleted_group_leaves_no_member_behind(control, group):
    control.join(A)
    control.do(CreateConsumerGroup(0, 0, "other"))
    control.do(JoinGroup(0, 0, 1, A))
    outcome = control.do(DeleteConsumerGroup(0, 0, "g"))
    assert outcome.effects == (DeletedGroup(0, 0, 0, (0, 1, 2, 3, 4, 5)),)
    assert control.state.memberships == {A: {GroupAddress(0, 0, 1)}}


def test_the_first_member_has_everything(control, group):
    assert control.do(JoinGroup(0, 0, 0, A)) == ApplyResult(GroupMember(0, tuple(range(6))))
    assert control.hands() == [(0, [0, 1, 2, 3, 4, 5])]


def test_joining_twice_changes_nothing(control, group):
    control.join(A)
    control.join(B)
    before = control.hands()
    assert control.do(JoinGroup(0, 0, 0, A)).created_id == 0
    assert control.hands() == before


def test_a_newcomer_is_promised_its_whole_share(control, group):
    control.join(A)
    outcome = control.do(JoinGroup(0, 0, 0, B))
    assert outcome == ApplyResult(GroupMember(1, ()), (CheckRevocations(0, 0, 0, (3, 4, 5)),))
    assert control.hands() == [(0, [0, 1, 2, 3, 4, 5]), (1, [])]
    assert group.pending[5] == Revocation(target=1, since=control.now)
    complete(control, 5, 3, 4)
    assert control.hands() == [(0, [0, 1, 2]), (1, [3, 4, 5])]


def test_three_members_end_up_level(control, group):
    for client_id in (A, B, C):
        control.join(client_id)
    assert control.hands() == [(0, [0, 1]), (1, [3, 4]), (2, [2, 5])]


def test_the_recorded_course_with_three_partitions(control):
    """One each, the fourth idle; then leaves, disconnects and the ids and slots that follow."""
    control.topic(3)
    courses = {
        A: [(0, [0, 1, 2])],
        B: [(0, [0, 1]), (1, [2])],
        C: [(0, [0]), (1, [2]), (2, [1])],
        D: [(0, [0]), (1, [2]), (2, [1]), (3, [])],
    }
    for client_id, hands in courses.items():
        control.join(client_id)
        assert control.hands() == hands
    control.do(LeaveGroup(0, 0, 0, B))
    assert control.hands() == [(0, [0]), (2, [1]), (3, [2])]
    control.refuse(MemberNotFound, LeaveGroup(0, 0, 0, B))
    control.do(ClientGone(C))
    assert control.hands() == [(0, [0, 2]), (3, [1])]
    control.join(B)
    assert [member_id for member_id, _ in control.hands()] == [0, 4, 3]


def test_a_partition_that_is_pending_stays_with_its_owner(control, group):
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    assert queries.member_partitions(group, A) == [0, 1, 2, 3, 4, 5]
    assert queries.member_partitions(group, B) == []
    complete(control, 4)
    assert control.hands() == [(0, [0, 1, 2, 3, 5]), (1, [4])]


def test_a_second_newcomer_is_promised_what_the_first_has_not_received_yet(control, group):
    """Redirecting a promise has no cost, and the promise keeps its age."""
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    since = control.now
    outcome = control.do(JoinGroup(0, 0, 0, C))
    assert group.pending == {
        2: Revocation(2, control.now),
        3: Revocation(1, since),
        4: Revocation(1, since),
        5: Revocation(2, since),
    }
    assert outcome.effects == (CheckRevocations(0, 0, 0, (2,)),)


def test_redirecting_a_promise_alone_has_no_effects(control):
    control.topic(2)
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    outcome = control.do(JoinGroup(0, 0, 0, C))
    assert outcome == ApplyResult(GroupMember(2, ()))


def test_completing_what_is_not_pending_means_nothing(control, group):
    control.join(A)
    complete(control, 3)
    assert control.do(CompleteRevocation(0, 0, 7, 3)) == ApplyResult()
    assert control.do(CompleteRevocation(5, 0, 0, 3)) == ApplyResult()
    assert control.hands() == [(0, [0, 1, 2, 3, 4, 5])]


def test_revocations_that_waited_too_long_are_forced(control, group):
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    since = control.now
    assert control.do(ExpireRevocations(since - 1)) == ApplyResult()
    assert control.do(ExpireRevocations(since)).effects == (ForgetPolled(0, 0, 0, (3, 4, 5)),)
    assert control.hands() == [(0, [0, 1, 2]), (1, [3, 4, 5])]
    assert group.pending == {}


def test_leaving_deals_everything_anew_and_forgets_what_changed_hands(control, group):
    for client_id in (A, B, C):
        control.join(client_id)
    outcome = control.do(LeaveGroup(0, 0, 0, B))
    assert control.hands() == [(0, [0, 2, 4]), (2, [1, 3, 5])]
    assert outcome.effects == (ForgetPolled(0, 0, 0, (1, 2, 3, 4)),)


def test_leaving_clears_every_promise(control, group):
    control.join(A)
    control.join(B)
    control.do(JoinGroup(0, 0, 0, C))
    control.do(LeaveGroup(0, 0, 0, C))
    assert group.pending == {}
    assert control.hands() == [(0, [0, 2, 4]), (1, [1, 3, 5])]


def test_the_last_to_leave_leaves_marks_to_forget(control, group):
    control.join(A)
    outcome = control.do(LeaveGroup(0, 0, 0, A))
    assert outcome.effects == (ForgetPolled(0, 0, 0, (0, 1, 2, 3, 4, 5)),)
    assert control.state.memberships == {}
    assert control.do(JoinGroup(0, 0, 0, B)) == ApplyResult(GroupMember(0, tuple(range(6))))


def test_an_idle_member_leaves_without_a_mark(control):
    control.topic(1)
    control.join(A)
    control.join(B)
    assert control.do(LeaveGroup(0, 0, 0, B)) == ApplyResult()


def test_a_lost_connection_leaves_every_group(control, group):
    control.do(CreateTopic(0, "u", 1))
    control.do(CreateConsumerGroup(0, 1, "g"))
    control.join(A)
    control.do(JoinGroup(0, 1, 0, A))
    assert control.do(ClientGone(A)).effects == (
        ForgetPolled(0, 0, 0, (0, 1, 2, 3, 4, 5)),
        ForgetPolled(0, 1, 0, (0,)),
    )
    assert control.state.memberships == {}
    assert control.do(ClientGone(A)) == ApplyResult()


def test_a_group_of_a_topic_without_partitions_waits_for_some(control):
    control.topic(0)
    assert control.do(JoinGroup(0, 0, 0, A)) == ApplyResult(GroupMember(0, ()))
    assert control.hands() == [(0, [])]
    control.do(CreatePartitions(0, 0, 2))
    assert control.hands() == [(0, [0, 1])]


def test_the_recorded_slot_of_one_who_comes_back(control, group):
    """A had slot 0 and id 0, went, and returns: the same slot, the next id."""
    for client_id in (A, B, C):
        control.join(client_id)
    control.do(ClientGone(A))
    control.join(A)
    assert [member_id for member_id, _ in control.hands()] == [3, 1, 2]
    assert sorted(len(partitions) for _, partitions in control.hands()) == [2, 2, 2]
