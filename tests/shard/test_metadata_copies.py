"""The metadata on several shards: the writer's side, and all of them together."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.shards import linked

from borzoi.metadata import snapshot
from borzoi.metadata.effects import CheckRevocations, DroppedUser, Effect, PurgedTopic
from borzoi.metadata.groups import ClientGone, CompleteRevocation, JoinGroup, VolatileCommand
from borzoi.metadata.guards import CallerIs
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults
from borzoi.metadata.users import root_creation
from borzoi.model.errors import (
    ShardUnavailable,
    StaleClient,
    StateCorrupted,
    StorageFailure,
    StreamNameTaken,
    Unauthenticated,
)
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream, StreamInfo
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.shard import metadata_copies as module
from borzoi.shard.bus import Bus
from borzoi.shard.links import Peer
from borzoi.shard.metadata_copies import (
    MetadataCopies,
    decode_commands,
    decode_entry,
    encode_commands,
    encode_entry,
)
from borzoi.shard.metadata_copy import MetadataCopy
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.storage.local import LocalMedium
from borzoi.storage.state_log import StateSettings, open_state_log

COUNT = 3


@dataclass
class Shard:
    bus: Bus
    metadata: MetadataPlane | MetadataCopy
    effects: list[Effect] = field(default_factory=list)
    follow: list[tuple[Metadata, Metadata]] = field(default_factory=list)
    answers: dict[type, list[VolatileCommand]] = field(default_factory=dict)
    fails: type | None = None

    async def carry_out(self, effect: Effect) -> Sequence[VolatileCommand]:
        self.effects.append(effect)
        await asyncio.sleep(0)
        if self.fails is not None and isinstance(effect, self.fails):
            raise StorageFailure("no space")
        return self.answers.get(type(effect), [])

    async def followed(self, before: Metadata, after: Metadata) -> None:
        self.follow.append((before, after))

    @property
    def digest(self) -> str:
        return snapshot.digest(self.metadata.state, members=True)


def writer(directory: Path, bus: Bus) -> Shard:
    directory.mkdir(exist_ok=True)
    state_log, _ = open_state_log(LocalMedium(), directory, StateSettings(enforce_fsync=False))
    state = Metadata()
    apply(state, Entry(1, 0, root_creation("root", "hash")))
    plane = MetadataPlane(
        state,
        state_log,
        defaults=TopicDefaults(1 << 30, NEVER, UNLIMITED),
        clock=iter(range(10, 10_000)).__next__,
        sync_each=False,
    )
    shard = Shard(bus, plane)
    plane.bind_effects(shard.carry_out)
    MetadataCopies(bus, plane)
    return shard


async def copy(bus: Bus) -> Shard:
    shard = Shard(bus, MetadataCopy(bus))
    assert isinstance(shard.metadata, MetadataCopy)
    await shard.metadata.join()
    shard.metadata.bind_effects(shard.carry_out, shard.followed)
    return shard


@pytest.fixture
async def shards(tmp_path: Path) -> AsyncIterator[list[Shard]]:
    buses = [Bus(links) for links in linked(COUNT)]
    made = [writer(tmp_path, buses[0]), await copy(buses[1]), await copy(buses[2])]
    yield made
    for shard in made:
        shard.metadata.close()
        shard.bus.close()
        shard.bus.links.close()


def topic() -> CreateTopic:
    return CreateTopic("s", "t", 4, Compression.NONE, NEVER, UNLIMITED, 1)


async def prepared(shards: list[Shard]) -> None:
    await shards[1].metadata.submit(Proposal(CreateStream("s"), 0))
    await shards[2].metadata.submit(Proposal(topic(), 0))
    await shards[0].metadata.submit(Proposal(CreateConsumerGroup("s", "t", "g"), 0))


def joined(first: Shard, second: Shard) -> None:
    one, other = socket.socketpair()
    first.bus.links.on_peer(Peer(second.bus.shard, one, os.dup(second.bus.links.arena)))
    second.bus.links.on_peer(Peer(first.bus.shard, other, os.dup(first.bus.links.arena)))


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_change_is_in_every_copy_when_it_is_answered(shards):
    for number, shard in enumerate(shards):
        outcome = await shard.metadata.submit(Proposal(CreateStream(f"s{number}"), 0))
        assert isinstance(outcome.created, StreamInfo)
        assert outcome.created.id == number
        assert len({one.digest for one in shards}) == 1
        revisions = {one.metadata.revision for one in shards}
        assert revisions == {number + 1}


async def test_effects_are_carried_out_on_every_shard_before_the_answer(shards):
    await prepared(shards)
    for shard in shards:
        shard.effects.clear()
    await shards[1].metadata.submit(Proposal(PurgeTopic("s", "t"), 0))
    for shard in shards:
        assert [type(effect) for effect in shard.effects] == [PurgedTopic]


async def test_what_is_refused_is_refused_with_its_reason_and_changes_nothing(shards):
    await prepared(shards)
    before = shards[0].digest
    with pytest.raises(StreamNameTaken):
        await shards[2].metadata.submit(Proposal(CreateStream("s"), 0))
    with pytest.raises(Unauthenticated):
        await shards[1].metadata.submit(Proposal(CreateStream("x"), 0, (CallerIs(99),)))
    assert {shard.digest for shard in shards} == {before}


async def test_commands_that_follow_come_from_the_shard_that_knows(shards):
    """Each shard says which of its partitions may move; all apply it."""
    await prepared(shards)
    for number, shard in enumerate(shards):
        shard.answers[CheckRevocations] = [CompleteRevocation(0, 0, 0, 2 + number % 2)]
    await shards[1].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))
    await shards[2].metadata.submit(Proposal(JoinGroup(0, 0, 0, 102), 0))
    assert len({shard.digest for shard in shards}) == 1
    group = shards[1].metadata.state.streams[0].topics[0].groups[0]
    assert not group.pending
    assert sorted(len(member.partitions) for member in group.members.values()) == [2, 2]


async def test_a_failure_of_one_shard_is_the_answer_and_the_change_stands(shards):
    await prepared(shards)
    shards[2].fails = PurgedTopic
    with pytest.raises(StorageFailure):
        await shards[1].metadata.submit(Proposal(PurgeTopic("s", "t"), 0))
    assert len({shard.digest for shard in shards}) == 1
    await shards[1].metadata.submit(Proposal(DeleteTopic("s", "t"), 0))


async def test_changes_of_all_shards_at_once_have_one_order(shards):
    proposals = [
        shards[number % COUNT].metadata.submit(Proposal(CreateStream(f"s{number}"), 0))
        for number in range(60)
    ]
    found = await asyncio.gather(*proposals)
    assert sorted(one.created.id for one in found) == list(range(60))
    assert len({shard.digest for shard in shards}) == 1


async def test_a_change_waits_for_a_shard_that_is_away_and_not_forever(shards, monkeypatch):
    await prepared(shards)
    shards[0].bus.links.on_peer_lost(1)
    changing = asyncio.ensure_future(shards[2].metadata.submit(Proposal(CreateStream("later"), 0)))
    await asyncio.sleep(0.05)
    assert not changing.done()
    joined(shards[0], shards[1])
    assert (await changing).created is not None
    await until(lambda: len({shard.digest for shard in shards}) == 1)

    monkeypatch.setattr(module, "INCOMPLETE_SECONDS_MAX", 0.05)
    shards[0].bus.links.on_peer_lost(1)
    with pytest.raises(ShardUnavailable, match=r"\[1\]"):
        await shards[2].metadata.submit(Proposal(CreateStream("never"), 0))


async def test_a_shard_that_dies_in_the_middle_is_passed_over(shards):
    await prepared(shards)
    gate = asyncio.Event()
    slow = shards[1]

    async def hangs(effect: Effect) -> Sequence[VolatileCommand]:
        gate.set()
        await asyncio.Event().wait()
        return []

    assert isinstance(slow.metadata, MetadataCopy)
    slow.metadata._carry_out = hangs
    changing = asyncio.ensure_future(shards[2].metadata.submit(Proposal(PurgeTopic("s", "t"), 0)))
    await gate.wait()
    shards[0].bus.links.on_peer_lost(1)
    await changing
    assert shards[0].digest == shards[2].digest


async def test_members_of_a_shard_that_dies_leave_their_groups(shards):
    await prepared(shards)
    await shards[1].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))
    await shards[2].metadata.submit(Proposal(JoinGroup(0, 0, 0, 102), 0))
    await shards[0].metadata.submit(Proposal(JoinGroup(0, 0, 0, 100), 0))
    shards[0].bus.links.on_peer_lost(1)
    await until(lambda: not shards[1].bus.is_there(0))
    joined(shards[0], shards[1])
    await until(lambda: sorted(shards[2].metadata.state.memberships) == [100, 102])
    await until(lambda: len({shard.digest for shard in shards}) == 1)


async def test_two_clients_of_one_number_cannot_be_members(shards):
    await prepared(shards)
    await shards[1].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))
    await shards[1].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))
    with pytest.raises(StaleClient):
        await shards[2].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))
    await shards[0].metadata.submit(Proposal(JoinGroup(0, 0, 0, 100), 0))
    with pytest.raises(StaleClient):
        await shards[2].metadata.submit(Proposal(JoinGroup(0, 0, 0, 100), 0))
    await shards[1].metadata.submit(Proposal(ClientGone(101), 0))
    await shards[2].metadata.submit(Proposal(JoinGroup(0, 0, 0, 101), 0))


def test_an_entry_crosses_without_its_guards():
    entry = Entry(5, 0, CreateStream("s"), (CallerIs(1),))
    assert decode_entry(encode_entry(entry)) == Entry(5, 0, CreateStream("s"))
    with pytest.raises(StateCorrupted):
        decode_entry(b"\xc1")


def test_only_volatile_commands_follow_from_an_entry():
    commands: list[VolatileCommand] = [ClientGone(1), CompleteRevocation(1, 2, 3, 4)]
    assert decode_commands(encode_commands(commands)) == commands
    with pytest.raises(StateCorrupted, match="CreateStream"):
        decode_commands(encode_commands([CreateStream("s")]))  # type: ignore[list-item]


async def test_users_are_dropped_on_every_shard(shards):
    for shard in shards:
        shard.answers[DroppedUser] = [ClientGone(500 + shard.bus.shard)]
    await prepared(shards)
    for shard in shards:
        client = 500 + shard.bus.shard
        await shard.metadata.submit(Proposal(JoinGroup(0, 0, 0, client), 0))
    from borzoi.metadata.sealed import SealedCreateUser
    from borzoi.model.users import UserStatus
    from borzoi.protocol.commands.users import DeleteUser

    anna = SealedCreateUser("anna", "hash", UserStatus.ACTIVE, None)
    await shards[1].metadata.submit(Proposal(anna, 0))
    await shards[2].metadata.submit(Proposal(DeleteUser("anna"), 0))
    for shard in shards:
        assert DroppedUser(1) in shard.effects
        assert not shard.metadata.state.memberships
