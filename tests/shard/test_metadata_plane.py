import asyncio
from pathlib import Path

import pytest
from tests.support.faults import Fault, FaultyMedium
from tests.support.lenient import LenientMedium

from borzoi.metadata.effects import CreatedPartitions, Effect
from borzoi.metadata.groups import ClientGone, JoinGroup
from borzoi.metadata.guards import CallerIs
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults
from borzoi.metadata.users import root_creation
from borzoi.model.errors import StorageFailure, StreamNameTaken, Unauthenticated
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.shard.metadata_plane import MetadataPlane, recovered_state
from borzoi.storage.state_log import StateLog, StateSettings, open_state_log

DEFAULTS = TopicDefaults(segment_size=1 << 20)
SMALL = StateSettings(snapshot_entries=3)


def opened(directory: Path, settings: StateSettings = SMALL) -> tuple[Metadata, StateLog]:
    log, recovered = open_state_log(LenientMedium(), directory, settings)
    return recovered_state(recovered), log


def plane_over(state: Metadata, log: StateLog, *, sync_each: bool = False) -> MetadataPlane:
    return MetadataPlane(state, log, defaults=DEFAULTS, clock=lambda: 5, sync_each=sync_each)


def with_root(state: Metadata) -> Metadata:
    apply(state, Entry(1, 0, root_creation("iggy", "hash")))
    return state


def effects_of(plane: MetadataPlane) -> list[Effect]:
    """The effects that are carried out from now on."""
    seen: list[Effect] = []

    async def carry_out(effect: Effect) -> tuple[()]:
        seen.append(effect)
        return ()

    plane.bind_effects(carry_out)
    return seen


@pytest.mark.parametrize("sync_each", [False, True])
async def test_what_was_submitted_is_there_after_a_restart(tmp_path: Path, sync_each: bool) -> None:
    state, log = opened(tmp_path, StateSettings(enforce_fsync=sync_each))
    plane = plane_over(with_root(state), log, sync_each=sync_each)
    assert (await plane.submit(Proposal(CreateStream("orders"), 0))).created_id == 0
    await plane.submit(Proposal(CreateTopic("orders", "placed", 2), 0))
    await plane.submit(Proposal(UpdateTopic("orders", "placed", "shipped"), 0))
    plane.close()
    again, _ = opened(tmp_path)
    assert again.streams[0].topics[0].name == "shipped"
    assert again.streams[0].topics[0].message_expiry == DEFAULTS.message_expiry


async def test_a_refused_command_is_not_logged(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    await plane.submit(Proposal(CreateStream("orders"), 0))
    size, revision = log.size, plane.revision
    with pytest.raises(StreamNameTaken):
        await plane.submit(Proposal(CreateStream("orders"), 0))
    assert (log.size, plane.revision) == (size, revision)


async def test_a_snapshot_holds_the_entry_that_caused_it(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    for number in range(3):
        await plane.submit(Proposal(CreateStream(f"stream-{number}"), 0))
    assert log.entries_since_snapshot == 0
    again, _ = opened(tmp_path)
    assert [stream.name for stream in again.streams.in_order()] == [
        "stream-0",
        "stream-1",
        "stream-2",
    ]


async def test_effects_are_carried_out_before_the_answer(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    seen = effects_of(plane)
    await plane.submit(Proposal(CreateStream("orders"), 0))
    await plane.submit(Proposal(CreateTopic("orders", "placed", 2), 0))
    assert seen == [CreatedPartitions(0, 0, (0, 1))]


async def test_a_change_is_completed_although_its_caller_is_cancelled(tmp_path: Path) -> None:
    state, log = opened(tmp_path, StateSettings(enforce_fsync=True))
    plane = plane_over(with_root(state), log, sync_each=True)
    seen: list[Effect] = []

    async def carry_out(effect: Effect) -> tuple[()]:
        await asyncio.sleep(0)
        seen.append(effect)
        return ()

    plane.bind_effects(carry_out)
    await plane.submit(Proposal(CreateStream("orders"), 0))
    half_way = asyncio.create_task(plane.submit(Proposal(CreateTopic("orders", "placed", 1), 0)))
    await asyncio.sleep(0)
    half_way.cancel()
    # The next one is checked against the state that the log has, not against an older one.
    await plane.submit(Proposal(CreateTopic("orders", "paid", 1), 0))
    assert half_way.cancelled()
    assert [topic.name for topic in state.streams[0].topics.in_order()] == ["placed", "paid"]
    assert seen == [CreatedPartitions(0, 0, (0,)), CreatedPartitions(0, 1, (0,))]
    plane.close()
    again, _ = opened(tmp_path)
    assert [topic.name for topic in again.streams[0].topics.in_order()] == ["placed", "paid"]


async def test_an_effect_that_fails_stops_neither_the_others_nor_the_change(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    await plane.submit(Proposal(CreateStream("orders"), 0))
    for name in ("placed", "paid"):
        await plane.submit(Proposal(CreateTopic("orders", name, 2), 0))
        await plane.submit(Proposal(CreateConsumerGroup("orders", name, "g"), 0))
    for topic_id, client_id in ((0, 7), (0, 8), (1, 7), (1, 8)):
        await plane.submit(Proposal(JoinGroup(0, topic_id, 0, client_id), 0))
    seen: list[Effect] = []

    async def carry_out(effect: Effect) -> tuple[()]:
        seen.append(effect)
        raise StorageFailure("no space")

    plane.bind_effects(carry_out)
    with pytest.raises(StorageFailure):
        await plane.submit(Proposal(ClientGone(7), 0))
    assert len(seen) == 2
    assert 7 not in state.memberships


async def test_without_room_for_a_snapshot_changes_are_made_all_the_same(tmp_path: Path) -> None:
    full = False

    def choose(operation: str, path: Path) -> Fault | None:
        return Fault.NO_SPACE if full and "snapshot" in path.name else None

    medium = FaultyMedium(LenientMedium(), choose)
    log, recovered = open_state_log(medium, tmp_path, SMALL)
    plane = plane_over(with_root(recovered_state(recovered)), log)
    seen = effects_of(plane)
    await plane.submit(Proposal(CreateStream("orders"), 0))
    full = True
    for number in range(4):
        await plane.submit(Proposal(CreateTopic("orders", f"topic-{number}", 1), 0))
    assert len(seen) == 4
    assert log.entries_since_snapshot == 5


async def test_a_guard_that_fails_in_its_turn_refuses_the_change(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    root = state.users[0]
    with pytest.raises(Unauthenticated):
        await plane.submit(Proposal(CreateStream("orders"), 0, (CallerIs(root.birth + 1),)))
    assert not state.streams
    await plane.submit(Proposal(CreateStream("orders"), 0, (CallerIs(root.birth),)))
    assert list(state.streams.ids) == ["orders"]


async def test_memberships_do_not_count_as_changes_of_streams(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    await plane.submit(Proposal(CreateStream("s"), 0))
    await plane.submit(Proposal(CreateTopic("s", "t", 1), 0))
    await plane.submit(Proposal(CreateConsumerGroup("s", "t", "g"), 0))
    before = plane.revision, plane.membership_revision
    await plane.submit(Proposal(JoinGroup(0, 0, 0, 7), 0))
    assert (plane.revision, plane.membership_revision) == (before[0], before[1] + 1)
