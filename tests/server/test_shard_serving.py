"""One shard of several: what is its own, what it shares, and how it ends."""

import asyncio
import json
import os
from pathlib import Path

import msgspec
from tests.support.shards import clients_of, running_shards

from borzoi.handlers.sessions import Session
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.sealed import SealedCreateUser
from borzoi.metadata.state import Metadata
from borzoi.metadata.users import root_creation
from borzoi.model.system import TransportKind
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.users import DeleteUser, UpdateUser
from borzoi.server.config import load
from borzoi.server.shard_serving import _without_first, is_outdated


async def test_only_the_first_shard_speaks_http_and_all_speak_tcp(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data") as shards:
        assert set(shards.controls[0].addresses) == {"tcp", "http"}
        assert set(shards.controls[1].addresses) == {"tcp"}
        assert (tmp_path / "data" / "runtime" / "current_config.toml").exists()


async def test_each_shard_does_its_own_chores_and_one_those_of_all(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data") as shards:
        names = {
            shard: {chore.name for chore in server._chores()}
            for shard, server in shards.servers.items()
        }
        assert names[1] == names[2]
        assert {"saver", "compression", "stalled connections", "deleted files"} <= names[1]
        assert names[0] - names[1] == {
            "revocations",
            "tokens",
            "sysinfo",
            "presence",
            "revoked tokens",
            "log files",
        }


async def test_messages_and_metadata_are_there_after_a_restart_with_another_count(
    tmp_path: Path,
) -> None:
    """The owners of partitions are others; the files stay where they are."""
    for number, count in enumerate((3, 1, 2, 5)):
        async with (
            running_shards(tmp_path / "data", count) as shards,
            clients_of(shards) as clients,
        ):
            if number == 0:
                await clients[1].create_stream("s")
                await clients[1].create_topic("s/t", partitions=6)
            for partition in range(6):
                polled = await clients[-1].poll_messages("s/t", partition=partition, start="first")
                found = [bytes(one.payload) for one in polled.messages]
                assert found == [b"%d" % one for one in range(number)]
                await clients[0].send_messages("s/t", [f"{number}"], partition=partition)
        presence = json.loads((tmp_path / "data" / "presence.json").read_text())
        assert len(presence["partitions"]) == 6, "the partitions of all shards"


async def test_churn_leaves_no_descriptor_buffer_or_request_behind(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data") as shards:

        async def once() -> None:
            async with clients_of(shards) as clients:
                await clients[0].ensure_topic("s/t", partitions=6)
                for partition in range(6):
                    messages = [bytes(1000)] * 100
                    await clients[1].send_messages("s/t", messages, partition=partition)
                    await clients[2].poll_messages("s/t", partition=partition)
                await clients[2].delete_stream("s")

        def held() -> tuple[int, int, int, int]:
            servers = shards.servers.values()
            return (
                len(os.listdir("/proc/self/fd")),
                sum(server._opened.pool.counters().in_use_bytes for server in servers),
                sum(server._partitions.files_held for server in servers),
                sum(len(one.pending) for s in servers for one in s._bus._exchanges.values()),
            )

        await once()
        await once()
        async with asyncio.timeout(30):
            while held()[2]:
                await asyncio.sleep(0.01)
        before = held()
        for _ in range(5):
            await once()
        async with asyncio.timeout(30):
            while held() > before:
                await asyncio.sleep(0.01)
        assert held() <= before


def test_a_later_shard_listens_where_the_first_one_does(tmp_path: Path) -> None:
    settings = load({"BORZOI_TCP_ADDRESS": "127.0.0.1:0"}, tmp_path).settings
    later = _without_first(settings, {"tcp": ("127.0.0.1", 4711), "http": ("127.0.0.1", 80)})
    assert later.tcp.address == ("127.0.0.1", 4711)
    assert not later.http.enabled
    assert not later.quic.enabled
    assert later.websocket == settings.websocket


def test_a_session_is_outdated_with_its_user_or_its_token() -> None:
    before = Metadata()
    apply(before, Entry(1, 0, root_creation("root", "hash")))
    anna = SealedCreateUser("anna", "hash", UserStatus.ACTIVE, None)
    apply(before, Entry(1, 0, anna))

    def after(*commands: object) -> Metadata:
        state = Metadata()
        apply(state, Entry(1, 0, root_creation("root", "hash")))
        apply(state, Entry(1, 0, anna))
        for command in commands:
            apply(state, Entry(1, 0, command))  # type: ignore[arg-type]
        return state

    session = Session(1, "a:1", TransportKind.TCP, lambda: None, 0.0, user_id=1)
    assert not is_outdated(session, before, after())
    assert is_outdated(session, before, after(DeleteUser("anna")))
    assert is_outdated(session, before, after(DeleteUser("anna"), anna)), "another one by then"
    assert is_outdated(session, before, after(UpdateUser("anna", None, UserStatus.INACTIVE)))
    assert is_outdated(msgspec.structs.replace(session, token_hash="gone"), before, after())
    assert not is_outdated(msgspec.structs.replace(session, user_id=None), before, after())
