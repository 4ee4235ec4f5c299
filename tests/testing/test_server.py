"""The test broker: a real server in a process or in the loop, and its faults."""

import asyncio
import time
from pathlib import Path

import pytest

from borzoi.client import AsyncClient, Client
from borzoi.model.errors import CannotConnect, RequestTimeout
from borzoi.testing import Server, ServerDied

pytestmark = pytest.mark.system


def test_a_process_is_there_and_gone() -> None:
    with Server() as server:
        assert server.is_running
        with Client(server.url) as client:
            client.ensure_topic("s/t")
            client.send_messages("s/t", ["a"])
        directory = server.directory
        assert any(directory.rglob("*.log"))
        assert "ready" in server.output or server.output
    assert not directory.exists()
    with pytest.raises(CannotConnect):
        Client(server.url).ping()


async def test_a_loop_is_enough() -> None:
    async with Server() as server:
        async with AsyncClient(server.url) as client:
            await client.ensure_topic("s/t")
            await client.send_messages("s/t", ["a"], partition=0)
            assert len(await client.poll_messages("s/t", partition=0, start=0)) == 1
        with pytest.raises(RuntimeError, match="no process"):
            server.pause()
    assert len(asyncio.all_tasks()) == 1


async def test_several_loops_servers_do_not_disturb_each_other() -> None:
    async with Server() as one, Server() as other:
        assert one.address != other.address
        async with AsyncClient(one.url) as client:
            await client.create_stream("s")
        async with AsyncClient(other.url) as client:
            assert await client.get_streams() == ()


def test_what_was_acknowledged_survives_a_kill() -> None:
    with Server() as server:
        with Client(server.url) as client:
            client.ensure_topic("s/t")
            client.send_messages("s/t", ["a"], partition=0)
            address = server.address
            server.kill()
            assert not server.is_running
            server.start()
            assert server.address == address
            assert len(client.poll_messages("s/t", partition=0, start=0)) == 1
            server.restart()
            assert len(client.poll_messages("s/t", partition=0, start=0)) == 1
        assert server.stop() == 0


@pytest.mark.parametrize("shards", ["1", "2"])
def test_a_paused_server_answers_nobody_until_it_goes_on(shards: str) -> None:
    settings = {"SYSTEM_SHARDING_CPU_ALLOCATION": shards}
    with Server(settings) as server, Client(server.url) as client:
        server.pause()
        with pytest.raises(RequestTimeout):
            client.ping(timeout=0.05)
        server.resume()
        client.ping()
        server.pause()
        assert server.stop() == 0


def test_settings_and_a_directory_of_ones_own(tmp_path: Path) -> None:
    with Server({"SYSTEM_SEGMENT_SIZE": "1 MiB"}, directory=tmp_path / "kept") as server:
        with Client(server.url) as client:
            client.create_stream("kept")
        assert 'size = "1 MiB"' in (server.directory / "runtime/current_config.toml").read_text()
    assert (tmp_path / "kept").exists()
    with Server(directory=tmp_path / "kept") as server, Client(server.url) as client:
        assert client.get_stream("kept") is not None


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerDied, match=r"SYSTEM_SEGMENT_SIZE|segment"):
        with Server({"SYSTEM_SEGMENT_SIZE": "plenty"}):
            pass


def test_before_it_was_started_it_is_nowhere() -> None:
    server = Server()
    with pytest.raises(RuntimeError, match="with statement"):
        _ = server.url
    with pytest.raises(RuntimeError, match="with statement"):
        _ = server.directory


def test_a_start_is_quick() -> None:
    """The figure is for a machine at rest; here only that nothing waits without need."""
    seconds = []
    for _ in range(3):
        before = time.perf_counter()
        with Server():
            seconds.append(time.perf_counter() - before)
    assert min(seconds) < 3.0, seconds
