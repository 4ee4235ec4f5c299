from pathlib import Path

import pytest

from borzoi.metadata.effects import CreatedPartitions, Effect
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.metadata.topics import TopicDefaults
from borzoi.metadata.users import root_creation
from borzoi.model.errors import StateCorrupted, StreamNameTaken
from borzoi.protocol.commands.streams import CreateStream, UpdateStream
from borzoi.protocol.commands.topics import CreateTopic, UpdateTopic
from borzoi.shard.metadata_plane import MetadataPlane, recovered_state
from borzoi.storage.local import LocalMedium
from borzoi.storage.state_log import StateLog, StateSettings, open_state_log

DEFAULTS = TopicDefaults(segment_size=1 << 20)
SMALL = StateSettings(snapshot_entries=3)


def opened(directory: Path, settings: StateSettings = SMALL) -> tuple[Metadata, StateLog]:
    log, recovered = open_state_log(LocalMedium(), directory, settings)
    return recovered_state(recovered), log


def plane_over(state: Metadata, log: StateLog, *, sync_each: bool = False) -> MetadataPlane:
    return MetadataPlane(state, log, defaults=DEFAULTS, clock=lambda: 5, sync_each=sync_each)


def with_root(state: Metadata) -> Metadata:
    apply(state, Entry(1, 0, root_creation("iggy", "hash")))
    return state


@pytest.mark.parametrize("sync_each", [False, True])
async def test_what_was_submitted_is_there_after_a_restart(tmp_path: Path, sync_each: bool) -> None:
    state, log = opened(tmp_path, StateSettings(enforce_fsync=sync_each))
    plane = plane_over(with_root(state), log, sync_each=sync_each)
    assert await plane.create(CreateStream("orders"), user_id=0) == 0
    await plane.submit(CreateTopic("orders", "placed", 2), user_id=0)
    await plane.submit(UpdateTopic("orders", "placed", "shipped"), user_id=0)
    plane.close()
    again, _ = opened(tmp_path)
    assert again.streams[0].topics[0].name == "shipped"
    assert again.streams[0].topics[0].message_expiry == DEFAULTS.message_expiry


async def test_a_refused_command_is_not_logged(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    await plane.submit(CreateStream("orders"), user_id=0)
    size, revision = log.size, plane.revision
    with pytest.raises(StreamNameTaken):
        await plane.submit(CreateStream("orders"), user_id=0)
    assert (log.size, plane.revision) == (size, revision)


async def test_a_snapshot_holds_the_entry_that_caused_it(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    for number in range(3):
        await plane.submit(CreateStream(f"stream-{number}"), user_id=0)
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
    seen: list[Effect] = []

    async def carry_out(effect: Effect) -> tuple[()]:
        seen.append(effect)
        return ()

    plane.carried_out_by(carry_out)
    await plane.submit(CreateStream("orders"), user_id=0)
    await plane.submit(CreateTopic("orders", "placed", 2), user_id=0)
    assert seen == [CreatedPartitions(0, 0, (0, 1))]


async def test_what_creates_nothing_has_no_id(tmp_path: Path) -> None:
    state, log = opened(tmp_path)
    plane = plane_over(with_root(state), log)
    await plane.submit(CreateStream("orders"), user_id=0)
    with pytest.raises(StateCorrupted):
        await plane.create(UpdateStream("orders", "other"), user_id=0)
