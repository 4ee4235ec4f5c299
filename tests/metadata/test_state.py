"""Each invariant is broken by hand, and `check` must notice."""

import pytest

from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.sealed import SealedCreatePersonalAccessToken as CreateToken
from borzoi.metadata.state import (
    Metadata,
    PartitionRecord,
    Revocation,
    Token,
    User,
    owner_slot,
)
from borzoi.model.errors import StateCorrupted
from borzoi.model.users import ALL_PERMISSIONS, UserStatus
from borzoi.protocol.commands.groups import CreateConsumerGroup

A, B = 101, 102


@pytest.fixture
def state(control):
    """Four partitions, A owns all of them, two are promised to B; root has a token."""
    control.topic(4)
    control.do(CreateConsumerGroup(0, 0, "empty"))
    control.do(CreateToken("token", "abc"))
    control.join(A)
    control.do(JoinGroup(0, 0, 0, B))
    return control.state


def topic_of(state):
    return state.streams[0].topics[0]


def group_of(state):
    return topic_of(state).groups[0]


def test_nothing_is_sound():
    Metadata().check()


def test_a_state_that_grew_by_commands_is_sound(state):
    state.check()


def _misfile_stream(state):
    state.streams[0].id = 1


def _rename_stream_only(state):
    state.streams[0].name = "other"


def _misfile_topic(state):
    topic_of(state).id = 1


def _rename_topic_only(state):
    topic_of(state).name = "other"


def _unresolved_expiry(state):
    topic_of(state).message_expiry = 0


def _unresolved_size(state):
    topic_of(state).max_topic_size = 0


def _unresolved_factor(state):
    topic_of(state).replication_factor = 0


def _gap_in_partitions(state):
    del topic_of(state).partitions[1]


def _misfile_partition(state):
    topic_of(state).partitions[1] = PartitionRecord(2, 0)


def _misfile_group(state):
    group_of(state).id = 1


def _rename_group_only(state):
    group_of(state).name = "other"


def _misfile_member(state):
    group_of(state).members[0].client_id = 9


def _mixed_partitions(state):
    group_of(state).members[0].partitions.reverse()


def _two_members_one_id(state):
    group_of(state).members[1].id = 0


def _partition_without_owner(state):
    group_of(state).members[0].partitions.remove(0)


def _partition_with_two_owners(state):
    group_of(state).members[1].partitions.append(0)


def _owner_without_members(state):
    topic_of(state).groups[1].pending[0] = Revocation(0, 0)


def _revocation_to_nobody(state):
    group_of(state).pending[3] = Revocation(7, 0)


def _revocation_to_the_owner(state):
    group_of(state).pending[3] = Revocation(0, 0)


def _unfair_plan(state):
    group_of(state).pending.clear()


def _member_without_membership(state):
    state.memberships.clear()


def _misfile_user(state):
    state.users[0].id = 1


def _rename_user_only(state):
    state.users[0].username = "other"


def _misfile_token(state):
    state.users[0].tokens["other"] = Token("token", "xyz")


def _two_tokens_one_hash(state):
    state.users[0].tokens["other"] = Token("other", "abc")


def _token_without_owner(state):
    state.token_owners.clear()


def _restricted_root(state):
    state.users[0].permissions = None


@pytest.mark.parametrize(
    ("breaks", "what"),
    [
        (_misfile_stream, "stream is filed"),
        (_rename_stream_only, "stream has a wrong key"),
        (_misfile_topic, "topic is filed"),
        (_rename_topic_only, "topic has a wrong key"),
        (_unresolved_expiry, "unresolved"),
        (_unresolved_size, "unresolved"),
        (_unresolved_factor, "unresolved"),
        (_gap_in_partitions, "gaps"),
        (_misfile_partition, "partition is filed"),
        (_misfile_group, "group is filed"),
        (_rename_group_only, "group has a wrong key"),
        (_misfile_member, "member has a wrong key"),
        (_mixed_partitions, "mixed"),
        (_two_members_one_id, "one id"),
        (_partition_without_owner, "exactly one owner"),
        (_partition_with_two_owners, "exactly one owner"),
        (_owner_without_members, "moves nothing"),
        (_revocation_to_nobody, "no target"),
        (_revocation_to_the_owner, "moves nothing"),
        (_unfair_plan, "not fair"),
        (_member_without_membership, "memberships differ"),
        (_misfile_user, "user is filed"),
        (_rename_user_only, "user has a wrong key"),
        (_misfile_token, "token is filed"),
        (_two_tokens_one_hash, "one hash"),
        (_token_without_owner, "owners differ"),
        (_restricted_root, "root is restricted"),
    ],
)
def test_check_notices(state, breaks, what):
    breaks(state)
    with pytest.raises(StateCorrupted, match=what):
        state.check()


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("STREAMS_MAX", "too many streams"),
        ("TOPICS_PER_STREAM_MAX", "too many topics"),
        ("PARTITIONS_PER_TOPIC_MAX", "too many partitions"),
    ],
)
def test_check_notices_what_exceeds_a_limit(state, monkeypatch, limit, what):
    monkeypatch.setattr(f"borzoi.metadata.state.{limit}", 0)
    with pytest.raises(StateCorrupted, match=what):
        state.check()


def test_a_state_with_users_but_without_root_is_unsound():
    state = Metadata()
    state.users.restore(1, "bob", User(1, "bob", "h", UserStatus.ACTIVE, ALL_PERMISSIONS, 0))
    state.users.fill_gaps()
    with pytest.raises(StateCorrupted, match="root"):
        state.check()


def test_the_owner_of_a_partition_is_found(state):
    assert owner_slot(group_of(state), 3) == 0
    assert owner_slot(group_of(state), 9) is None


@pytest.mark.parametrize(
    ("expiry_at", "now", "expired"), [(0, 10**18, False), (5, 4, False), (5, 5, True)]
)
def test_a_token_expires_at_its_time_or_never(expiry_at, now, expired):
    assert Token("token", "abc", expiry_at).has_expired(now) is expired


def test_no_secret_reaches_a_representation(state):
    assert "abc" not in repr(state)
    assert "hash of root" not in repr(state)
