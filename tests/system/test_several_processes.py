"""``borzoi serve`` with several shards: a supervisor and a process for each of them."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support.interpreter import run_python
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.shard_processes import shard_of, shard_processes, wait_for
from tests.support.wire_client import WireClient

from borzoi.model.errors import BorzoiError
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.records.message import decode_messages
from borzoi.server import exit_statuses

pytestmark = pytest.mark.system

PARTITIONS = 6


def shards(count: int, **settings: str) -> dict[str, str]:
    return {"SYSTEM_SHARDING_CPU_ALLOCATION": str(count), **settings}


def logged_in(server: RunningServer) -> WireClient:
    client = WireClient(server.tcp_address)
    client.login()
    return client


@contextmanager
def one_client_of_each_shard(server: RunningServer, count: int) -> Iterator[dict[int, WireClient]]:
    """The kernel chooses the shard of a connection, so connect until each has one."""
    with ExitStack() as stack:
        found: dict[int, WireClient] = {}
        while len(found) < count:
            client = stack.enter_context(logged_in(server))
            shard = shard_of(server, client)
            assert shard is not None
            found.setdefault(shard, client)
        yield found


def send(client: WireClient, partition: int, *payloads: bytes) -> None:
    client.call(send_of(*payloads, partitioning=Partitioning.partition(partition)))


def polled(client: WireClient, partition: int) -> list[bytes]:
    found = client.call(poll_of(1000, partition=partition))
    assert isinstance(found, PolledMessages)
    return [bytes(message.payload) for message in decode_messages(found.messages)]


def fill(client: WireClient, padding: int = 0) -> None:
    client.call(CreateStream("s"))
    client.call(CreateTopic("s", "t", PARTITIONS))
    for partition in range(PARTITIONS):
        send(client, partition, f"{partition}".encode() + bytes(padding))


def is_filled(client: WireClient, padding: int = 0) -> bool:
    return all(
        polled(client, number) == [f"{number}".encode() + bytes(padding)]
        for number in range(PARTITIONS)
    )


def test_every_shard_serves_everything_and_a_stop_keeps_it(tmp_path: Path) -> None:
    with running_server(shards(3), directory=tmp_path / "data") as server:
        assert sorted(shard_processes(server)) == [0, 1, 2]
        assert server.output.count("is ready\n") == 1
        with one_client_of_each_shard(server, 3) as clients:
            fill(clients[1])
            assert all(is_filled(client) for client in clients.values())
        left = set(shard_processes(server).values())
        assert server.stop() == exit_statuses.OK, server.output
        assert not any(Path(f"/proc/{process}").exists() for process in left)
        assert "Traceback" not in server.output
        server.start()
        with logged_in(server) as client:
            assert is_filled(client)


def test_messages_without_an_id_get_different_ones_on_every_shard() -> None:
    """No two shards may continue one sequence of random numbers."""
    with running_server(shards(3)) as server, logged_in(server) as client:
        client.call(CreateStream("s"))
        client.call(CreateTopic("s", "t", PARTITIONS))
        ids = set()
        for partition in range(PARTITIONS):
            send(client, partition, *[b"x"] * 100)
            found = client.call(poll_of(1000, partition=partition))
            assert isinstance(found, PolledMessages)
            ids |= {message.id for message in decode_messages(found.messages)}
        assert len(ids) == 100 * PARTITIONS
        assert 0 not in ids


def test_another_number_of_shards_finds_the_same_data(tmp_path: Path) -> None:
    for start, count in enumerate((2, 1, 3)):
        with running_server(shards(count), directory=tmp_path / "data") as server:
            with logged_in(server) as client:
                if not start:
                    fill(client)
                assert is_filled(client)
            assert server.stop() == exit_statuses.OK, server.output


@pytest.mark.parametrize("victim", [0, 1])
def test_a_shard_that_is_killed_comes_back_and_disturbs_nobody_else(victim: int) -> None:
    # A connection that sends to one partition would move to its owner, and that may be the victim.
    with running_server(shards(2, TCP_SOCKET_MIGRATION="false")) as server:
        with one_client_of_each_shard(server, 2) as clients:
            fill(clients[1 - victim])
            before = shard_processes(server)
            os.kill(before[victim], signal.SIGKILL)
            wait_for(
                server,
                lambda: shard_processes(server).get(victim, before[victim]) != before[victim],
            )
            # The same connection goes on, and what it asks of the other shard waits for that.
            clients[1 - victim].call(Ping())
            assert is_filled(clients[1 - victim])
            send(clients[1 - victim], 0, b"after")
            assert shard_of(server, clients[1 - victim]) == 1 - victim
            with pytest.raises(ConnectionError):
                clients[victim].call(Ping())
        with one_client_of_each_shard(server, 2) as clients:
            for client in clients.values():
                assert polled(client, 0) == [b"0", b"after"]
            clients[1].call(CreateStream("after"))
        assert server.output.count("  try: ") == 1, "the banner is for the start of the server"
        assert server.stop() == exit_statuses.OK, server.output


@pytest.mark.parametrize("victim", [0, 1])
def test_a_shard_that_loses_the_connection_to_a_living_one_is_replaced(victim: int) -> None:
    """A shard that may not open more files loses those that another one sends it."""
    with running_server(shards(2, TCP_SOCKET_MIGRATION="false")) as server:
        with one_client_of_each_shard(server, 2) as clients:
            fill(clients[victim], padding=100_000)
            before = shard_processes(server)
            _, most = resource.prlimit(before[victim], resource.RLIMIT_NOFILE)
            resource.prlimit(before[victim], resource.RLIMIT_NOFILE, (8, most))
            with pytest.raises((ConnectionError, BorzoiError)):
                is_filled(clients[victim], padding=100_000)
            wait_for(
                server,
                lambda: shard_processes(server).get(victim, before[victim]) != before[victim],
            )
            # The same connection goes on.
            assert is_filled(clients[1 - victim], padding=100_000)
        assert shard_processes(server)[1 - victim] == before[1 - victim]
        with one_client_of_each_shard(server, 2) as clients:
            assert all(is_filled(client, padding=100_000) for client in clients.values())
        assert "a connection to another shard failed" in server.output
        ended = f"shard {victim} ended with status {exit_statuses.FAILED}; restarting it"
        assert server.output.count(ended) == 1
        assert server.stop() == exit_statuses.OK, server.output


def test_without_restart_a_shard_that_dies_takes_the_server_with_it() -> None:
    with running_server(shards(2, SUPERVISOR_RESTART="false")) as server:
        with logged_in(server) as client:
            fill(client)
        os.kill(shard_processes(server)[1], signal.SIGKILL)
        assert server.process.wait(60) == exit_statuses.FAILED
        assert "shard 1 was ended by SIGKILL, and supervisor.restart is false" in server.output
        server.start()
        with logged_in(server) as client:
            assert is_filled(client)


def test_a_supervisor_that_is_killed_leaves_nothing_behind_and_the_next_start_works() -> None:
    with running_server(shards(2)) as server:
        with logged_in(server) as client:
            fill(client)
        pid = server.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) == 2, "two shards"
        server.kill()
        wait_for(server, lambda: not any(Path(f"/proc/{one}/exe").exists() for one in children))
        server.start()
        with logged_in(server) as client:
            assert is_filled(client)


def test_what_keeps_one_shard_from_starting_is_told_once_and_ends_all(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "info.json").write_text("not what we write")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BORZOI_")},
        "BORZOI_SYSTEM_PATH": str(tmp_path / "data"),
        "BORZOI_SYSTEM_SHARDING_CPU_ALLOCATION": "2",
        "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
        "BORZOI_HTTP_ENABLED": "false",
    }
    ended = run_python("-m", "borzoi", "serve", env=environment, cwd=tmp_path, timeout=60)
    assert ended.returncode == exit_statuses.CANNOT_START
    assert ended.stderr.count("borzoi cannot start: ") == 1
    assert "info.json" in ended.stderr


def test_the_directory_of_a_server_is_refused_to_another(tmp_path: Path) -> None:
    with running_server(shards(2), directory=tmp_path / "data") as server:
        environment = {**server.environment, "BORZOI_TCP_ADDRESS": "127.0.0.1:0"}
        ended = run_python("-m", "borzoi", "serve", env=environment, timeout=60)
        assert ended.returncode == exit_statuses.CANNOT_START
        assert f"in use by another server (process {server.process.pid})" in ended.stderr


def test_a_supervisor_loads_only_what_it_needs() -> None:
    """It is there for every server with shards, and each of those has all of it already."""
    with running_server(shards(2)) as server:
        mapped = Path(f"/proc/{server.process.pid}/maps").read_text()
        assert not [name for name in ("numpy", "uvloop", "cryptography") if f"/{name}/" in mapped]
        mapped = Path(f"/proc/{shard_processes(server)[1]}/maps").read_text()
        assert "/numpy/" in mapped
        assert not [name for name in ("httptools", "qh3", "starlette") if f"/{name}/" in mapped]


#: What only a server of several processes has.
SEVERAL = {
    *(f"borzoi.handlers.{name}" for name in ("routed_dispatch", "shard_neighbours")),
    "borzoi.memory.arenas",
    *(f"borzoi.server.{name}" for name in ("control", "control_messages", "migration")),
    *(f"borzoi.server.{name}" for name in ("shard_serving", "supervision", "supervisor")),
    *(f"borzoi.shard.{name}" for name in ("bus", "line", "links", "envelopes", "ownership")),
    *(f"borzoi.shard.{name}" for name in ("metadata_copies", "metadata_copy", "created")),
    *(f"borzoi.shard.{name}" for name in ("crossed_polls", "crossing", "crossing_files")),
    *(f"borzoi.shard.{name}" for name in ("reading_ahead", "routing", "answering")),
}


@pytest.mark.parametrize("count", [1, 2])
def test_one_process_loads_nothing_of_several(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So sharding costs it nothing: it has another dispatcher and another plane."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with running_server(shards(count)) as server:
        with logged_in(server) as client:
            fill(client)
            assert is_filled(client)
        assert server.stop() == exit_statuses.OK
        loaded = {line.rpartition("|")[2].strip() for line in server.output.splitlines()}
        assert "borzoi.server.process" in loaded
        assert loaded & SEVERAL == (set() if count == 1 else SEVERAL)


def test_each_process_writes_its_own_log(tmp_path: Path) -> None:
    with running_server(shards(2), directory=tmp_path / "data") as server:
        os.kill(shard_processes(server)[1], signal.SIGUSR1)
        log = tmp_path / "data" / "logs" / "borzoi-shard-1.log"
        wait_for(server, lambda: "because of SIGUSR1" in log.read_text())
        names = {path.name for path in log.parent.iterdir()}
        assert names == {"borzoi.log", "borzoi-shard-0.log", "borzoi-shard-1.log"}
