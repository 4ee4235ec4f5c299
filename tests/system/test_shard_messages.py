"""Messages on a server of three shards: sent, polled, committed and deleted on the wrong one.

Each test has one client for each shard, so every operation is tried where its partition is and
where it is not.
"""

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.shard_stage import (
    PARTITIONS,
    Stage,
    payloads,
    running_stage,
    until,
    wait_for_messages,
)
from tests.support.shards import clients_of, running_shards

from borzoi.client import AsyncClient
from borzoi.model.errors import (
    BorzoiError,
    InvalidOffset,
    PartitionNotFound,
)
from borzoi.model.topics import Compression
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import INVALID_COMMAND
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX
from borzoi.shard.envelopes import Bytes

pytestmark = pytest.mark.system


async def test_sends_and_polls_reach_the_owner_from_every_shard(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        for partition in range(PARTITIONS):
            await client.send_messages("s/t", [f"{number}"], partition=partition)
    for client in stage.clients:
        for partition in range(PARTITIONS):
            assert await payloads(client, partition) == [b"0", b"1", b"2"]


async def test_a_large_batch_crosses_where_it_lies(stage: Stage) -> None:
    """Its bytes are in the arena of the shard that received it, and are lent until the answer."""
    messages = [bytes([number % 251]) * 1000 for number in range(1000)]
    for partition in range(PARTITIONS):
        await stage.wrong(partition).send_messages("s/t", messages, partition=partition)
        for client in stage.clients:
            assert await payloads(client, partition) == messages
    for server in stage.shards.servers.values():
        listeners = 2 * 256 * 1024
        assert server._opened.pool.counters().in_use_bytes <= listeners


async def test_balanced_and_keyed_sends_go_to_all_shards(stage: Stage) -> None:
    client = stage.clients[0]
    for number in range(PARTITIONS):
        await client.send_messages("s/t", [f"{number}"])
    found = [await payloads(client, partition) for partition in range(PARTITIONS)]
    assert found == [[f"{number}".encode()] for number in range(PARTITIONS)]
    for number in range(20):
        await client.send_messages("s/t", ["keyed"], key=f"key-{number}")
    topic = await stage.clients[1].get_topic("s/t")
    assert topic is not None
    assert topic.messages_count == PARTITIONS + 20


async def test_offsets_are_kept_by_the_owner(stage: Stage) -> None:
    for partition in range(PARTITIONS):
        wrong = stage.wrong(partition)
        await wrong.send_messages("s/t", ["a", "b", "c"], partition=partition)
        await wrong.store_consumer_offset("s/t", 1, partition=partition, consumer="c")
        for client in stage.clients:
            stored = await client.get_consumer_offset("s/t", partition=partition, consumer="c")
            assert stored is not None
            assert (stored.stored_offset, stored.current_offset) == (1, 2)
            polled = await client.poll_messages("s/t", partition=partition, consumer="c")
            assert [one.offset for one in polled.messages] == [2]
        with pytest.raises(InvalidOffset):
            await wrong.store_consumer_offset("s/t", 9, partition=partition, consumer="c")
        await wrong.delete_consumer_offset("s/t", partition=partition, consumer="c")
        assert await wrong.get_consumer_offset("s/t", partition=partition, consumer="c") is None


async def test_a_committing_poll_commits_on_the_owner(stage: Stage) -> None:
    for partition in range(PARTITIONS):
        wrong = stage.wrong(partition)
        await wrong.send_messages("s/t", ["a", "b"], partition=partition)
        polled = await wrong.poll_messages(
            "s/t", partition=partition, consumer="c", count=1, commit=True
        )
        assert [one.offset for one in polled.messages] == [0]
        stored = await stage.clients[0].get_consumer_offset(
            "s/t", partition=partition, consumer="c"
        )
        assert stored is not None
        assert stored.stored_offset == 0


async def test_a_flush_reaches_the_owner(tmp_path: Path) -> None:
    async with running_stage(tmp_path / "data", SYSTEM_PARTITION_ACKNOWLEDGE="buffered") as stage:
        for partition in range(PARTITIONS):
            wrong = stage.wrong(partition)
            await wrong.send_messages("s/t", ["unsaved"], partition=partition)
            # What is only in memory crosses as bytes behind the ranges.
            assert await payloads(wrong, partition) == [b"unsaved"]
            folder = tmp_path / "data" / "streams/0/topics/0/partitions" / str(partition)
            logs = list(folder.glob("*.log"))
            assert sum(one.stat().st_size for one in logs) == 0
            await wrong.flush_unsaved_buffer("s/t", partition, fsync=True)
            assert sum(one.stat().st_size for one in folder.glob("*.log")) > 0
            assert await payloads(wrong, partition) == [b"unsaved"]


async def test_a_reader_gets_every_message_from_the_wrong_shard(stage: Stage) -> None:
    """From offset to offset: the owner says ahead what comes next."""
    for partition in range(PARTITIONS):
        wrong = stage.wrong(partition)
        sent = [f"{partition}-{number}".encode() for number in range(120)]
        await wrong.send_messages("s/t", sent, partition=partition)
        found: list[bytes] = []
        while len(found) < len(sent):
            polled = await wrong.poll_messages(
                "s/t", partition=partition, start=len(found), count=7
            )
            assert polled.current_offset == 119
            assert polled.messages
            found += [bytes(one.payload) for one in polled.messages]
        assert found == sent
        # What comes later is seen at once, and what is purged is gone at once.
        await wrong.send_messages("s/t", ["more"], partition=partition)
        assert await payloads(wrong, partition, count=200) == [*sent, b"more"]
        await stage.clients[0].purge_topic("s/t")
        assert await payloads(wrong, partition, count=200) == []


async def test_the_limit_of_a_poll_holds_on_the_wrong_shard(tmp_path: Path) -> None:
    settings = {"TCP_SOCKET_MIGRATION": "false", "SYSTEM_PARTITION_MAX_POLL_SIZE": "10 KB"}
    async with (
        running_shards(tmp_path / "data", 3, **settings) as shards,
        clients_of(shards) as clients,
    ):
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            await clients[0].send_messages("s/t", [bytes(1000)] * 100, partition=partition)
            lengths = {len(await payloads(client, partition, count=100)) for client in clients}
            assert lengths == {9}, "the same on every shard"


@pytest.mark.parametrize("how", ["compressed", "encrypted"])
async def test_messages_that_have_to_be_made_are_made_where_they_are_sent(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is inflated or decrypted crosses as its place, so it takes a slice of memory at a time
    also on the way to another shard."""
    settings = {"TCP_SOCKET_MIGRATION": "false", "SYSTEM_SEGMENT_SIZE": "1 MiB"}
    settings["SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE"] = "1"
    if how == "encrypted":
        settings["SYSTEM_ENCRYPTION_ENABLED"] = "true"
        settings["SYSTEM_ENCRYPTION_KEY"] = base64.b64encode(b"k" * 32).decode()
    async with (
        running_shards(tmp_path / "data", 3, **settings) as shards,
        clients_of(shards) as clients,
    ):
        await clients[0].create_stream("s")
        compression = Compression.GZIP if how == "compressed" else Compression.NONE
        await clients[0].create_topic("s/t", partitions=PARTITIONS, compression=compression)
        sent = [b"%05d" % number * 200 for number in range(6000)]
        for partition in range(PARTITIONS):
            for first in range(0, len(sent), 1000):
                batch = sent[first : first + 1000]
                await clients[0].send_messages("s/t", batch, partition=partition)
        for server in shards.servers.values():
            upkeep = server._services.partitions.upkeep
            state = server._services.metadata.state
            await upkeep.compress(state, lambda topic: topic.compression)
        crossed: list[int] = []
        for server in shards.servers.values():
            answer = server._partitions._polls.answer

            def noting(*asked: Any, answer: Callable[..., Bytes] = answer) -> Bytes:
                body = answer(*asked)
                crossed.append(len(body))
                return body

            monkeypatch.setattr(server._partitions._polls, "answer", noting)
        for partition in range(PARTITIONS):
            for client in clients:
                assert await payloads(client, partition, count=6000) == sent
        assert len(crossed) == 2 * PARTITIONS
        assert max(crossed) < 1 << 20, "of 6 MB, only what is in no file crosses as bytes"


async def test_deleted_segments_are_closed_on_every_shard(tmp_path: Path) -> None:
    async with running_stage(tmp_path / "data", SYSTEM_SEGMENT_SIZE="1 MiB") as stage:
        for partition in range(PARTITIONS):
            wrong = stage.wrong(partition)
            for _ in range(30):
                await wrong.send_messages("s/t", [bytes(1000)] * 100, partition=partition)
            for start in range(0, 3000, 500):
                await wrong.poll_messages("s/t", partition=partition, start=start, count=500)
        held = [server._partitions.files_held for server in stage.shards.servers.values()]
        assert sum(held) > PARTITIONS
        for partition in range(PARTITIONS):
            await stage.wrong(partition).delete_segments("s/t", partition, 100)
        # Only the open segments are left, in the chore that looks for deleted files every second.
        await until(
            lambda: (
                sum(one._partitions.files_held for one in stage.shards.servers.values())
                <= PARTITIONS
            )
        )
        await stage.clients[0].delete_stream("s")
        await until(
            lambda: not any(one._partitions.files_held for one in stage.shards.servers.values())
        )


async def test_every_owner_removes_what_has_expired(tmp_path: Path) -> None:
    settings = {
        "TCP_SOCKET_MIGRATION": "false",
        "SYSTEM_SEGMENT_SIZE": "1 MiB",
        "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1",
        "DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
        "DATA_MAINTENANCE_MESSAGES_INTERVAL": "100 ms",
    }
    async with (
        running_shards(tmp_path / "data", 3, **settings) as shards,
        clients_of(shards) as clients,
    ):
        stage = Stage(shards, clients)
        await clients[1].create_stream("s")
        await clients[2].create_topic("s/t", partitions=PARTITIONS, message_expiry="1 ms")
        for partition in range(PARTITIONS):
            for _ in range(3):
                batch = [bytes(1000)] * 600
                await stage.wrong(partition).send_messages("s/t", batch, partition=partition)
        async with asyncio.timeout(30):
            for client in clients:
                while (topic := await client.get_topic("s/t")) is None or any(
                    one.messages_count > 600 for one in topic.partitions
                ):
                    await asyncio.sleep(0.05)
        for partition in range(PARTITIONS):
            polled = await stage.wrong(partition).poll_messages(
                "s/t", partition=partition, start="first"
            )
            assert polled.current_offset == 1799
            assert all(one.offset >= 1200 for one in polled.messages), "the open segment is left"


async def test_a_frame_that_is_too_large_is_refused_by_every_shard(stage: Stage) -> None:
    for shard in range(3):
        host, port = stage.shards.controls[shard].addresses["tcp"]
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(REQUEST_PREFIX.pack((10 << 20) + 5, int(Code.CREATE_STREAM)))
        status, _ = RESPONSE_PREFIX.unpack(await reader.readexactly(RESPONSE_PREFIX.size))
        assert status == INVALID_COMMAND
        assert await reader.read() == b"", "and the connection ends"
        writer.close()
    for client in stage.clients:
        await client.ping()


async def test_a_waiting_poll_is_woken_by_a_send_on_another_shard(stage: Stage) -> None:
    for partition in range(PARTITIONS):
        wrong = stage.wrong(partition)
        waiting = asyncio.create_task(wait_for_messages(wrong, partition, 20_000))
        await until(
            lambda: any(
                session.waiting
                for server in stage.shards.servers.values()
                for session in server._services.sessions
            )
        )
        await stage.clients[stage.owner(partition)].send_messages(
            "s/t", ["there"], partition=partition
        )
        async with asyncio.timeout(10):
            assert (await waiting).messages_count == 1


async def test_a_waiting_poll_that_ends_leaves_nothing_behind(stage: Stage) -> None:
    partition = 0
    shard = stage.shards.others(stage.owner(partition))[0]
    owner = stage.shards.servers[stage.owner(partition)]
    arrivals = owner._partitions.owned[(0, 0, partition)].arrivals  # type: ignore[index]
    client = AsyncClient(stage.shards.url(shard))
    await client.connect()
    waiting = asyncio.create_task(wait_for_messages(client, partition, 200))
    await until(lambda: bool(arrivals.waiting))
    await client.close()
    await until(lambda: not arrivals.waiting)
    with pytest.raises(BorzoiError):
        await waiting


async def test_faults_of_the_owner_are_those_of_a_local_partition(stage: Stage) -> None:
    for client in stage.clients:
        with pytest.raises(PartitionNotFound):
            await client.send_messages("s/t", ["x"], partition=PARTITIONS)
        with pytest.raises(PartitionNotFound):
            await client.flush_unsaved_buffer("s/t", PARTITIONS)
