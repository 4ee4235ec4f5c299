"""The archiver of a whole server, from its settings to what comes back."""

import asyncio
from pathlib import Path

import pytest
from tests.support.archives import files_in
from tests.support.embedded import EmbeddedServer, embedded_server, sent_singly, with_topic
from tests.support.starts import settings_with

from borzoi.archive.catalog import Selection, read_catalog
from borzoi.archive.restoring import plan_restore, restore, restore_state
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.metering import Meters
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.server.archiving import archiver_of, default_name
from borzoi.server.housekeeping import clean
from borzoi.server.opening import folders_of
from borzoi.server.settings import Settings
from borzoi.server.state_copies import StateCopies

HOUR = 3_600_000_000
ARCHIVING = {
    "SYSTEM_SEGMENT_SIZE": "1 KiB",
    "SYSTEM_BACKUP_ARCHIVER_ENABLED": "true",
    "SYSTEM_BACKUP_ARCHIVER_NAME": "node-1",
    "SYSTEM_SEGMENT_ARCHIVE_EXPIRED": "true",
}


def segments(server: EmbeddedServer) -> int:
    """How many there are of all partitions."""
    return server.services.partitions._table.totals().segments_count


async def archive(server: EmbeddedServer) -> None:
    """One turn of the server's archiver."""
    assert server.archiver is not None
    await server.archiver.run(
        server.services.partitions.upkeep.views(
            server.services.metadata.state,
            folders_of(server.configuration.settings, server.directory),
        ),
        StateCopies(server.directory, server.opened.state_log),
    )


async def test_expired_segments_wait_for_the_archive(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, ARCHIVING) as server:
        await with_topic(server, message_expiry=HOUR)
        await sent_singly(server, 6)
        upkeep, state = server.services.partitions.upkeep, server.services.metadata.state
        later = server.services.clock() + 2 * HOUR
        await upkeep.clean(state, now=later)
        assert segments(server) == 5
        assert server.archiver is not None
        assert server.archiver.counters.deletions_blocked > 0
        await archive(server)
        await upkeep.clean(state, now=later)
        assert segments(server) < 7


async def test_a_topic_that_is_too_large_waits_as_well(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, ARCHIVING) as server:
        await server.root().call(CreateStream("s"))
        await server.root().call(CreateTopic("s", "t", 1, max_topic_size=4096))
        await sent_singly(server, 8)
        before = segments(server)
        await clean(server.services)
        assert segments(server) == before
        await archive(server)
        await clean(server.services)
        assert segments(server) < before


async def test_a_deletion_on_request_waits_as_well(tmp_path: Path) -> None:
    """It removes what is archived and leaves the rest; without `archive_expired` all of it goes."""
    deletion = DeleteSegments("s", "t", 0, 100)
    async with embedded_server(tmp_path / "waits", ARCHIVING) as server:
        await with_topic(server)
        await sent_singly(server, 4)
        await server.root().call(deletion)
        assert segments(server) == 4
        await archive(server)
        await sent_singly(server, 3)
        await server.root().call(deletion)
        assert segments(server) == 3
        await archive(server)
        await server.root().call(deletion)
        assert segments(server) == 2, "the open segments of both partitions"
    asked = {**ARCHIVING, "SYSTEM_SEGMENT_ARCHIVE_EXPIRED": "false"}
    async with embedded_server(tmp_path / "goes", asked) as server:
        await with_topic(server)
        await sent_singly(server, 4)
        await server.root().call(deletion)
        assert segments(server) == 2


async def test_a_store_that_does_not_answer_holds_up_no_send(tmp_path: Path) -> None:
    class Silent(DirectoryStore):
        def __init__(self, root: Path) -> None:
            super().__init__(root)
            self.asked = asyncio.Event()

        async def put(self, key, data):
            self.asked.set()
            await asyncio.Event().wait()

    async with embedded_server(tmp_path, ARCHIVING) as server:
        await with_topic(server)
        await sent_singly(server, 4)
        assert server.archiver is not None
        server.archiver._store = silent = Silent(tmp_path / "silent")
        turn = asyncio.create_task(archive(server))
        await silent.asked.wait()
        await sent_singly(server, 4)
        assert segments(server) == 6
        assert not turn.done()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn


async def test_what_is_emptied_or_deleted_whole_does_not_wait(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, ARCHIVING) as server:
        await with_topic(server)
        await sent_singly(server, 4)
        await server.root().call(PurgeTopic("s", "t"))
        assert segments(server) == 2
        await server.root().call(DeleteTopic("s", "t"))
        assert segments(server) == 0


async def test_what_was_archived_is_a_data_directory_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with embedded_server(data, ARCHIVING) as server:
        await with_topic(server)
        await sent_singly(server, 10)
        await archive(server)
        assert server.archiver is not None
        await server.archiver.close()
        archived = server.archiver.counters.segments_archived
        assert archived >= segments(server) - 2
        assert server.meters.requests["create", "ok"] == archived + 1, "one is of the probe"
    store = DirectoryStore(data / "backup" / "archive")
    catalog = await read_catalog(store, "node-1")
    back = tmp_path / "back"
    for plan in await plan_restore(store, catalog, Selection(), back):
        async for _ in restore(store, "node-1", plan):
            pass
    await restore_state(store, catalog, back)
    restored = files_in(back / "streams")
    assert restored
    assert restored.items() <= files_in(data / "streams").items()
    async with embedded_server(back, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        assert server.services.metadata.state.streams[0].name == "s"
        assert server.services.partitions._table.totals().messages_count >= 9


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, None),
        ({"CLUSTER_ENABLED": "true", "CLUSTER_NAME": "blue cluster"}, "blue-cluster-iggy-node-1"),
    ],
)
def test_a_server_is_called_after_its_cluster_or_its_host(
    tmp_path: Path, variables: dict[str, str], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "db.example.org")
    assert default_name(settings_with(tmp_path, **variables)) == (name or "db-example-org")


def test_nothing_is_archived_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert archiver_of(Settings(), tmp_path, Meters(), clock=lambda: 0) is None
