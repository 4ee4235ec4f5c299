import asyncio
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedClient, embedded_server, with_topic
from tests.support.polls import poll_of
from tests.support.sends import send_of

from borzoi.model.namespace import Namespace
from borzoi.protocol.commands.messages import SendMessages
from borzoi.records.message import Message, decode_messages
from borzoi.server.config import load
from borzoi.server.opening import folders_of, random_ids, store_of
from borzoi.storage.local import LocalMedium
from borzoi.storage.settings import Acknowledge
from borzoi.telemetry.durations import Ongoing


def send(*ids: int) -> SendMessages:
    return send_of(*(Message(b"x", number) for number in ids))


async def stored(client: EmbeddedClient) -> list[tuple[int, int]]:
    polled = await client.call(poll_of(100))
    return [(message.offset, message.id) for message in decode_messages(polled.messages)]


def test_folders_are_called_what_the_settings_say(tmp_path: Path) -> None:
    environment = {
        "BORZOI_SYSTEM_STREAM_PATH": "a",
        "BORZOI_SYSTEM_TOPIC_PATH": "b",
        "BORZOI_SYSTEM_PARTITION_PATH": "c",
    }
    folder_of = folders_of(load(environment, tmp_path).settings, tmp_path)
    assert folder_of((1,)) == tmp_path / "a/1"
    assert folder_of((1, 2)) == tmp_path / "a/1/b/2"
    assert folder_of(Namespace(1, 2, 3)) == tmp_path / "a/1/b/2/c/3"


async def test_a_partition_is_opened_where_it_lies(tmp_path: Path) -> None:
    settings = load({}, tmp_path).settings
    store = store_of(settings, tmp_path, LocalMedium(), None, Acknowledge.WRITTEN, Ongoing())
    namespace = Namespace(0, 0, 0)
    store.make((0, 0))
    partition = store.open(namespace)
    assert partition.statistics.messages_count == 0
    assert (tmp_path / "streams/0/topics/0/partitions/0").is_dir()
    partition.close()
    store.close()
    await asyncio.sleep(0)


@pytest.mark.parametrize("cache", ["all", "true", "open_segment", "none", "false"])
async def test_every_way_to_cache_indexes_reads_the_same(tmp_path: Path, cache: str) -> None:
    settings = {"SYSTEM_SEGMENT_CACHE_INDEXES": cache, "SYSTEM_SEGMENT_SIZE": "512 B"}
    async with embedded_server(tmp_path, settings) as server:
        root = (await with_topic(server)).root()
        for number in range(1, 30):
            await root.call(send(number))
        assert await stored(root) == [(number - 1, number) for number in range(1, 30)]


async def test_duplicates_are_remembered_also_over_a_restart(tmp_path: Path) -> None:
    settings = {"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true"}
    async with embedded_server(tmp_path, settings) as server:
        root = (await with_topic(server)).root()
        await root.call(send(1, 2))
        await root.call(send(2, 3))
        assert await stored(root) == [(0, 1), (1, 2), (2, 3)]
    async with embedded_server(tmp_path, settings) as server:
        await server.root().call(send(3, 4))
        assert await stored(server.root()) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_ids_are_random_uuids_and_never_the_same_twice() -> None:
    new_ids = random_ids()
    drawn = b"".join(bytes(new_ids(count)) for count in (1, 3, 5000, 2))
    ids = [drawn[start : start + 16] for start in range(0, len(drawn), 16)]
    assert len(set(ids)) == 5006
    assert {one[6] >> 4 for one in ids} == {4}
    assert {one[8] >> 6 for one in ids} == {2}
