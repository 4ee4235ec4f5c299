"""A control plane in one object: applies commands, keeps the log, and verifies every step."""

import pytest

from borzoi.metadata import snapshot
from borzoi.metadata.commands import is_logged
from borzoi.metadata.groups import CompleteRevocation, JoinGroup
from borzoi.metadata.machine import Entry, apply, verify
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults, resolved
from borzoi.metadata.users import root_creation
from borzoi.model.errors import BorzoiError
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic

DEFAULTS = TopicDefaults(segment_size=1024)


class Control:
    def __init__(self):
        self.state = Metadata()
        self.log: list[Entry] = []
        self.now = 0
        self.do(root_creation("iggy", "hash of root"))

    def do(self, command, user_id=0):
        """Applies the command at the next µs."""
        if isinstance(command, CreateTopic | UpdateTopic):
            command = resolved(command, DEFAULTS)
        self.now += 1
        entry = Entry(self.now, user_id, command)
        if is_logged(command):
            self.log.append(entry)
        outcome = apply(self.state, entry)
        self.state.check()
        return outcome

    def refuse(self, error: type[BorzoiError], command, user_id=0):
        """The command is refused with exactly this error, early and late, and leaves no trace."""
        before = snapshot.encode(self.state, members=True)
        entry = Entry(self.now, user_id, command)
        for attempt in (verify, apply):
            with pytest.raises(BorzoiError) as refusal:
                attempt(self.state, entry)
            assert type(refusal.value) is error
        assert snapshot.encode(self.state, members=True) == before

    def topic(self, partitions_count):
        """Stream 0 with topic 0, which has this many partitions and group 0."""
        self.do(CreateStream("s"))
        self.do(CreateTopic(0, "t", partitions_count))
        self.do(CreateConsumerGroup(0, 0, "g"))
        return self.state.streams[0].topics[0]

    def join(self, client_id):
        """Joins the group. No member has polled anything, so pending partitions move at once."""
        outcome = self.do(JoinGroup(0, 0, 0, client_id))
        for effect in outcome.effects:
            for partition_id in effect.partition_ids:
                self.do(CompleteRevocation(0, 0, 0, partition_id))
        return outcome

    def hands(self):
        """(member id, partitions) in the order clients see."""
        members = self.state.streams[0].topics[0].groups[0].members.in_order()
        return [(member.id, member.partitions) for member in members]


@pytest.fixture
def control() -> Control:
    return Control()
