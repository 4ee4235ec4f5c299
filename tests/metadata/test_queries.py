import pytest

from borzoi.metadata import queries
from borzoi.metadata.groups import CompleteRevocation, JoinGroup
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken as CreateToken
from borzoi.metadata.state import GroupAddress, Token
from borzoi.model import errors
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream

A, B = 101, 102


@pytest.fixture
def state(control):
    control.topic(3)
    return control.state


@pytest.mark.parametrize("stream_id", [0, "s"])
@pytest.mark.parametrize("topic_id", [0, "t"])
@pytest.mark.parametrize("group_id", [0, "g"])
def test_things_are_found_by_number_and_by_name(state, stream_id, topic_id, group_id):
    stream = state.streams[0]
    topic = stream.topics[0]
    assert queries.stream(state, stream_id) is queries.find_stream(state, stream_id) is stream
    assert queries.topic(state, stream_id, topic_id) is topic
    assert queries.find_topic(state, stream_id, topic_id) is topic
    group = topic.groups[0]
    assert queries.group(state, stream_id, topic_id, group_id) is group
    assert queries.find_group(state, stream_id, topic_id, group_id) is group
    partition = topic.partitions[2]
    assert queries.partition(state, stream_id, topic_id, 2) is partition
    assert queries.find_partition(state, stream_id, topic_id, 2) is partition


def test_a_name_of_digits_is_a_name(control):
    for name in ("x", "7"):
        control.do(CreateStream(name))
    assert queries.stream(control.state, "7").id == 1
    assert queries.find_stream(control.state, 7) is None
    assert queries.find_stream(control.state, "0") is None


def test_what_is_missing_is_none_or_raises(state):
    assert queries.find_stream(state, "nope") is None
    assert queries.find_topic(state, "nope", 0) is None
    assert queries.find_topic(state, 0, 9) is None
    assert queries.find_partition(state, 0, 9, 0) is None
    assert queries.find_partition(state, 0, 0, 3) is None
    assert queries.find_group(state, 9, 0, 0) is None
    assert queries.find_group(state, 0, 0, "nope") is None
    assert queries.find_user(state, "nobody") is None
    with pytest.raises(errors.StreamNotFound):
        queries.stream(state, 9)
    with pytest.raises(errors.TopicNotFound):
        queries.topic(state, 0, 9)
    with pytest.raises(errors.PartitionNotFound):
        queries.partition(state, 0, 0, 3)
    with pytest.raises(errors.GroupNotFound):
        queries.group(state, 0, 0, 9)
    with pytest.raises(errors.ResourceNotFound):
        queries.user(state, 9)


def test_users_are_found_by_number_and_by_name(state):
    root = state.users[0]
    assert queries.user(state, 0) is queries.user(state, "iggy") is root
    assert queries.find_user(state, "iggy") is root


def test_a_token_leads_to_its_owner(control):
    control.do(CreateToken("two", "b", 9))
    control.do(CreateToken("one", "a"))
    state = control.state
    assert queries.tokens_of(state, 0) == [Token("one", "a"), Token("two", "b", 9)]
    assert queries.token_owner(state, "b") == (state.users[0], Token("two", "b", 9))
    assert queries.token_owner(state, "c") is None


def test_expired_tokens_are_noticed(control):
    control.do(CreateToken("one", "a"))
    assert not queries.has_expired_tokens(control.state, 9)
    control.do(CreateToken("two", "b", 9))
    assert not queries.has_expired_tokens(control.state, 8)
    assert queries.has_expired_tokens(control.state, 9)


def test_members_and_their_groups_are_found(control, state):
    group = state.streams[0].topics[0].groups[0]
    control.join(A)
    assert queries.find_member(group, B) is None
    assert queries.find_member(group, A) is queries.member(group, A)
    assert queries.member_partitions(group, A) == [0, 1, 2]
    assert queries.groups_of(state, A) == queries.groups_with_members(state)
    assert queries.groups_of(state, A) == [GroupAddress(0, 0, 0)]
    assert queries.groups_of(state, B) == []
    with pytest.raises(errors.MemberNotFound):
        queries.member_partitions(group, B)
    with pytest.raises(errors.MemberNotFound):
        queries.next_polled_partition(group, B)


def test_polls_go_round_and_offset_commands_stay(control, state):
    group = state.streams[0].topics[0].groups[0]
    control.join(A)
    assert [queries.next_polled_partition(group, A) for _ in range(4)] == [0, 1, 2, 0]
    assert [queries.current_partition(group, A) for _ in range(2)] == [1, 1]
    assert queries.next_polled_partition(group, A) == 1


def test_polls_pass_over_what_is_pending(control, state):
    group = state.streams[0].topics[0].groups[0]
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    assert queries.is_pending(group, 2)
    assert not queries.is_pending(group, 1)
    assert [queries.next_polled_partition(group, A) for _ in range(3)] == [0, 1, 0]
    assert queries.next_polled_partition(group, B) is None
    assert queries.current_partition(group, B) is None
    control.do(CompleteRevocation(0, 0, 0, 2))
    assert queries.next_polled_partition(group, B) == 2
    assert [queries.next_polled_partition(group, A) for _ in range(3)] == [1, 0, 1]


def test_a_member_whose_every_partition_is_pending_polls_nothing(control, state):
    group = state.streams[0].topics[0].groups[0]
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    group.pending = dict.fromkeys([0, 1, 2], group.pending[2])
    assert queries.next_polled_partition(group, A) is None


def test_positions_survive_a_shorter_list(control, state):
    group = state.streams[0].topics[0].groups[0]
    control.do(CreatePartitions(0, 0, 3))
    control.join(A)
    assert [queries.next_polled_partition(group, A) for _ in range(5)] == [0, 1, 2, 3, 4]
    control.join(B)
    assert queries.next_polled_partition(group, A) in queries.member_partitions(group, A)


def test_overdue_revocations_are_noticed(control, state):
    control.join(A)
    assert not queries.has_expired_revocations(state, 10**9)
    control.do(JoinGroup(0, 0, 0, B))
    assert not queries.has_expired_revocations(state, control.now - 1)
    assert queries.has_expired_revocations(state, control.now)
