import os
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.interpreter import run_python

from borzoi.metadata import groups, snapshot
from borzoi.metadata.commands import (
    Command,
    LoggedCommand,
    decode_command,
    encode_command,
    is_logged,
)
from borzoi.metadata.guards import CallerIs
from borzoi.metadata.machine import Entry, apply, verify
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.state import Metadata
from borzoi.metadata.tokens import ExpireTokens
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.metadata.users import root_creation
from borzoi.model.errors import BorzoiError, Unauthenticated
from borzoi.model.topics import Compression
from borzoi.model.users import Permissions, StreamPermissions, TopicPermissions, UserStatus
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser

DEFAULTS = TopicDefaults(segment_size=1024)

# Few names and numbers, so that commands meet each other's results.
names = st.sampled_from(["anna", "bert", "cleo", ""])
numbers = st.integers(0, 2)
ids = numbers | names
clients = st.integers(0, 5)
times = st.integers(0, 120)
counts = st.sampled_from([0, 1, 2, 5, 1001])
hashes = st.sampled_from("uvwxyz")
topic_flags = st.builds(TopicPermissions, read_topic=st.booleans())
stream_flags = st.builds(StreamPermissions, topics=st.dictionaries(numbers, topic_flags))
permissions = st.none() | st.builds(Permissions, streams=st.dictionaries(numbers, stream_flags))
topic_settings = {
    "compression": st.sampled_from(Compression),
    "message_expiry": st.integers(0, 2),
    "replication_factor": st.integers(0, 2),
}


def settled(command):
    return resolved(command, DEFAULTS)


COMMANDS = {
    CreateStream: st.builds(CreateStream, names),
    UpdateStream: st.builds(UpdateStream, ids, names),
    DeleteStream: st.builds(DeleteStream, ids),
    PurgeStream: st.builds(PurgeStream, ids),
    CreateTopic: st.builds(CreateTopic, ids, names, counts, **topic_settings).map(settled),
    UpdateTopic: st.builds(UpdateTopic, ids, ids, names, **topic_settings).map(settled),
    DeleteTopic: st.builds(DeleteTopic, ids, ids),
    PurgeTopic: st.builds(PurgeTopic, ids, ids),
    CreatePartitions: st.builds(CreatePartitions, ids, ids, counts),
    DeletePartitions: st.builds(DeletePartitions, ids, ids, counts),
    CreateConsumerGroup: st.builds(CreateConsumerGroup, ids, ids, names),
    DeleteConsumerGroup: st.builds(DeleteConsumerGroup, ids, ids, ids),
    SealedCreateUser: st.builds(
        SealedCreateUser, names, hashes, st.sampled_from(UserStatus), permissions
    ),
    UpdateUser: st.builds(
        UpdateUser, ids, st.none() | names, st.none() | st.sampled_from(UserStatus)
    ),
    UpdatePermissions: st.builds(UpdatePermissions, ids, permissions),
    SealedChangePassword: st.builds(SealedChangePassword, ids, hashes),
    DeleteUser: st.builds(DeleteUser, ids),
    SealedCreatePersonalAccessToken: st.builds(
        SealedCreatePersonalAccessToken, names, hashes, times, st.integers(1, 3)
    ),
    DeletePersonalAccessToken: st.builds(DeletePersonalAccessToken, names),
    ExpireTokens: st.builds(ExpireTokens, times),
    groups.JoinGroup: st.builds(groups.JoinGroup, numbers, numbers, numbers, clients),
    groups.LeaveGroup: st.builds(groups.LeaveGroup, numbers, numbers, numbers, clients),
    groups.ClientGone: st.builds(groups.ClientGone, clients),
    groups.CompleteRevocation: st.builds(
        groups.CompleteRevocation, numbers, numbers, numbers, st.integers(0, 8)
    ),
    groups.ExpireRevocations: st.builds(groups.ExpireRevocations, times),
}
# Joins are what group life is made of, and most others only make it shorter.
commands = st.one_of([*COMMANDS.values(), *[COMMANDS[groups.JoinGroup]] * 8])
histories = st.lists(st.tuples(numbers, commands), max_size=80)


def beginning() -> list[Entry]:
    """Two streams with a topic of five partitions and a group each, so that things happen."""
    begun: list[Command] = [root_creation("root", "hash")]
    for name in ("anna", "bert"):
        begun += [
            CreateStream(name),
            settled(CreateTopic(name, name, 5)),
            CreateConsumerGroup(name, name, name),
        ]
    return [Entry(0, 0, command) for command in begun]


def history_of(steps) -> list[Entry]:
    return [
        *beginning(),
        *(Entry(at, user_id, command) for at, (user_id, command) in enumerate(steps, start=1)),
    ]


def lived(state: Metadata, history: list[Entry]) -> Metadata:
    """The state after the history; what is refused is passed over, as in a replay."""
    for entry in history:
        try:
            apply(state, entry)
        except BorzoiError:
            pass
    return state


def whole(state: Metadata) -> bytes:
    return snapshot.encode(state, members=True)


def test_the_histories_know_every_command():
    everything = {*get_args(LoggedCommand), *get_args(groups.VolatileCommand)}
    assert set(COMMANDS) == everything


@given(histories)
def test_every_invariant_holds_after_every_entry(steps):
    state = Metadata()
    for entry in history_of(steps):
        lived(state, [entry])
        state.check()


@given(histories)
def test_what_is_refused_is_refused_early_and_leaves_no_trace(steps):
    state = Metadata()
    for entry in history_of(steps):
        before = whole(state)
        try:
            verify(state, entry)
        except BorzoiError as early:
            with pytest.raises(type(early)):
                apply(state, entry)
            assert whole(state) == before
        else:
            assert whole(state) == before
            apply(state, entry)


@given(histories)
def test_the_log_alone_rebuilds_what_is_durable(steps):
    """Through bytes, without the volatile commands, and with what was refused."""
    history = history_of(steps)
    state = lived(Metadata(), history)
    logged = [
        Entry(entry.at, entry.user_id, decode_command(*encode_command(entry.command)))
        for entry in history
        if is_logged(entry.command)
    ]
    assert snapshot.digest(lived(Metadata(), logged)) == snapshot.digest(state)


@given(histories, st.data())
def test_a_copy_made_at_any_time_goes_on_as_the_original(steps, data):
    history = history_of(steps)
    cut = data.draw(st.integers(0, len(history)))
    original = lived(Metadata(), history[:cut])
    copy = snapshot.decode(whole(original))
    assert whole(copy) == whole(original)
    assert whole(lived(copy, history[cut:])) == whole(lived(original, history[cut:]))


def test_the_order_of_sets_has_no_say():
    script = Path(__file__).with_name("digest_of_a_day.py")
    answers = {
        run_python(script, env={**os.environ, "PYTHONHASHSEED": seed}, check=True).stdout
        for seed in ("0", "1", "2718")
    }
    (answer,) = answers
    assert int(answer.split()[1]) > 500


def test_an_entry_is_a_value():
    assert Entry(1, 0, CreateStream("s")) == Entry(1, 0, CreateStream("s"))


def test_a_guard_that_does_not_hold_refuses_the_entry_and_changes_nothing(control):
    before = snapshot.digest(control.state)
    entry = Entry(9, 0, CreateStream("guarded"), (CallerIs(control.state.users[0].birth + 1),))
    for door in (verify, apply):
        with pytest.raises(Unauthenticated):
            door(control.state, entry)
    assert snapshot.digest(control.state) == before
