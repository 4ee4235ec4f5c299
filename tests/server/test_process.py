"""Real processes: what a start says and leaves behind, and how it ends."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from tests.support.certificates import trusting
from tests.support.interpreter import run_python
from tests.support.polls import READER
from tests.support.sends import send_of
from tests.support.server import ServerDied, directory_in_memory, running_server
from tests.support.starts import start_with
from tests.support.wire_client import PATIENCE_SECONDS, WireClient

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import failed
from borzoi.metadata.commands import Command
from borzoi.metadata.groups import JoinGroup
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.topics import resolved
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.system import TransportKind
from borzoi.protocol.commands.groups import CreateConsumerGroup
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, TopicDetails
from borzoi.protocol.framing import encode_request
from borzoi.server import exit_statuses, neighbours
from borzoi.server.assembly import open_data
from borzoi.server.config import load
from borzoi.server.launching import Start, launch
from borzoi.server.process import STOP_SECONDS_MAX, RunningServer, serve_alone
from borzoi.shard.metadata_plane import MetadataPlane

pytestmark = pytest.mark.system

SECRET = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="


def start_of(folder: Path, **variables: str) -> Start:
    environment = {f"BORZOI_{name}": value for name, value in variables.items()}
    environment["BORZOI_SYSTEM_PATH"] = str(folder / "data")
    return start_with(environment, folder)


#: Packages and modules of commands, listeners and formats that a plain start has no use for.
NOT_FOR_A_START = (
    "borzoi.consensus",
    "borzoi.protocol.rest",
    "borzoi.listeners.tls",
    "borzoi.listeners.websocket.secure",
    "borzoi.security.certificates",
    "borzoi.server.config_command",
    "borzoi.server.schema",
    "borzoi.tools.command",
    "borzoi.simulator",
    "borzoi.tools.dumping",
    "borzoi.tools.importing",
    "borzoi.tools.inspection",
    "borzoi.tools.repairing",
    "tests.support",
    "backports.zstd",
    "cryptography",
    "difflib",
    "isal",
    "json",
    "lz4",
    "multiprocessing",
    "rich",
    "shutil",
    "tomllib",
    "unittest",
)


def test_a_start_loads_nothing_it_has_no_use_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # The interpreter then writes a line for each module that it loads.
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with running_server() as server:
        lines = [line for line in server.output.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "borzoi.server.process" in loaded
    prefixes = tuple(f"{name}." for name in NOT_FOR_A_START)
    assert (
        sorted(name for name in loaded if name in NOT_FOR_A_START or name.startswith(prefixes))
        == []
    )


def test_the_classes_a_start_makes_are_cheap() -> None:
    """A dataclass costs a start a millisecond, a struct a fortieth of that; there are 200."""
    packages = (
        *("handlers", "listeners", "memory", "metadata", "model", "partitions", "protocol"),
        *("records", "security", "server", "shard", "storage", "telemetry"),
    )
    prefixes = tuple(f"borzoi.{package}." for package in packages)
    made = {
        f"{module.__name__}.{name}"
        for module in list(sys.modules.values())
        if module.__name__.startswith(prefixes)
        for name, value in vars(module).items()
        if dataclasses.is_dataclass(value) and getattr(value, "__module__", "").startswith(prefixes)
    }
    assert made == set()


def test_a_server_says_when_it_is_ready_and_where() -> None:
    encrypted = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": SECRET}
    with running_server(encrypted) as server:
        host, port = server.tcp_address
        with WireClient(server.tcp_address) as client:
            # The file exists before the banner; requests are answered after both.
            client.call(Ping())
        assert f"{host}:{port}" in server.output
        assert "is ready" in server.output
        current = server.directory / "runtime" / "current_config.toml"
        document = tomllib.loads(current.read_text())
        assert document["tcp"]["address"] == f"{host}:{port}"
        # The file is handed out in snapshots, so it has no secret in it; nor has the banner.
        assert SECRET not in current.read_text()
        assert SECRET not in server.output
        assert not list(current.parent.glob("*.tmp"))
        assert server.stop() == exit_statuses.OK
        assert "Traceback" not in server.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_and_clients_are_told(number: signal.Signals) -> None:
    with running_server() as server:
        with WireClient(server.tcp_address) as busy, WireClient(server.tcp_address) as idle:
            busy.login()
            busy.call(CreateStream("kept"))
            idle.call(Ping())
            server.process.send_signal(number)
            for client in (busy, idle):
                assert client.leftovers(PATIENCE_SECONDS) == (failed(8), True)
        assert server.process.wait(PATIENCE_SECONDS) == exit_statuses.OK
        server.start()
        with WireClient(server.tcp_address) as again:
            again.login()
            (stream,) = again.call(GetStreams()).streams
            assert stream.name == "kept"


def test_clients_behind_tls_are_told_as_well() -> None:
    with running_server({"TCP_TLS_ENABLED": "true"}) as server:
        with (
            socket.create_connection(server.tcp_address, PATIENCE_SECONDS) as plain,
            trusting().wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(bytes.fromhex("0400000001000000"))
            assert secure.recv(8) == bytes(8)
            server.process.send_signal(signal.SIGTERM)
            assert secure.recv(8) == failed(8)
        assert server.process.wait(PATIENCE_SECONDS) == exit_statuses.OK


def test_two_servers_share_neither_a_directory_nor_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first is asked whether it is there; on a busy machine it answers late.
    monkeypatch.setattr(neighbours, "PATIENCE_SECONDS", PATIENCE_SECONDS)
    with running_server() as server:
        host, port = server.tcp_address
        taken = start_of(tmp_path, TCP_ADDRESS=f"{host}:{port}")
        assert launch(taken, serve_alone) == exit_statuses.CANNOT_START
        assert f"already answers at {host}:{port}" in capsys.readouterr().err
        occupied = Start(
            load(
                {
                    "BORZOI_SYSTEM_PATH": str(server.directory),
                    "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
                },
                tmp_path,
            ),
            fresh=True,
            default_credentials=True,
            follower=False,
            environment={},
        )
        before = sorted(path.name for path in server.directory.iterdir())
        assert launch(occupied, serve_alone) == exit_statuses.CANNOT_START
        assert "in use by another server" in capsys.readouterr().err
        # Not even with --fresh, which empties what it has locked.
        assert sorted(path.name for path in server.directory.iterdir()) == before
        with WireClient(server.tcp_address) as client:
            client.login()


def test_a_server_that_cannot_write_its_log_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    start = start_of(tmp_path, TCP_ADDRESS="127.0.0.1:0", SYSTEM_LOGGING_PATH="../file")
    assert launch(start, serve_alone) == exit_statuses.CANNOT_START
    said = capsys.readouterr()
    assert "borzoi cannot start: system.logging.path: " in said.err
    assert "is ready" not in said.out
    assert "Traceback" not in said.err


def test_the_file_that_says_ready_is_not_there_when_nothing_listens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "data" / "runtime" / "current_config.toml"
    stale.parent.mkdir(parents=True)
    stale.write_text("from an earlier start")
    code = launch(start_of(tmp_path, TCP_ADDRESS="192.0.2.1:8090"), serve_alone)
    assert code == exit_statuses.CANNOT_START
    assert "tcp.address: cannot listen" in capsys.readouterr().err
    assert not stale.exists()


def test_a_wrong_setting_ends_a_start_with_two_and_a_sentence() -> None:
    with pytest.raises(ServerDied, match=r"tcp\.address: 'nowhere' is not allowed"):
        with running_server({"TCP_ADDRESS": "nowhere"}):
            pass
    ended = run_python("-m", "borzoi", "serve", env={"BORZOI_TCP_ADDRESS": "nowhere", "PATH": ""})
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_a_fresh_start_forgets_what_was_there() -> None:
    with running_server() as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateStream("s"))
        server.stop()
        server.arguments = ("--with-default-root-credentials", "--fresh")
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            assert client.call(GetStreams()) is None


@pytest.mark.parametrize("acknowledge", ["written", "synced"])
def test_a_stop_under_load_keeps_what_was_acknowledged_and_is_quick(acknowledge: str) -> None:
    """Clients that never pause: some send, some store offsets, each a request after the other."""
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge, "SYSTEM_SEGMENT_SIZE": "16 MiB"}
    with (
        directory_in_memory() as directory,
        running_server(settings, directory=directory) as server,
    ):
        with WireClient(server.tcp_address) as root:
            root.login()
            root.call(CreateStream("s"))
            root.call(CreateTopic("s", "t", 1))
            root.call(send_of(b"first"))
        acknowledged, statuses = Counter[int](), Counter[int]()
        warm = threading.Barrier(9)

        def ask(number: int) -> None:
            with WireClient(server.tcp_address) as client:
                client.login()
                frame = encode_request(
                    send_of(b"more") if number % 2 else StoreConsumerOffset(READER, "s", "t", 0, 0)
                )
                client.exchange(frame)
                acknowledged[number] += 1
                warm.wait(PATIENCE_SECONDS)
                with contextlib.suppress(ConnectionError):
                    while True:
                        status, _ = client.exchange(frame)
                        statuses[status] += 1
                        acknowledged[number] += status == 0

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        warm.wait(PATIENCE_SECONDS)
        began = time.monotonic()
        code = server.stop()
        took = time.monotonic() - began
        for thread in threads:
            thread.join()
        assert code == exit_statuses.OK, server.output
        assert took < STOP_SECONDS_MAX / 2
        assert "did not end in time" not in server.output
        # Every client got either success or the status of a server that stops.
        assert set(statuses) <= {0, 8}
        server.start()
        with WireClient(server.tcp_address) as root:
            root.login()
            found = root.call(GetTopic("s", "t"))
            assert isinstance(found, TopicDetails)
            sent = sum(acknowledged[number] for number in range(1, 8, 2))
            assert found.messages_count == sent + 1


async def test_who_was_dropped_before_takes_no_namesake_along_when_it_disconnects(
    tmp_path: Path,
) -> None:
    enabled = {f"{name}_ENABLED": "false" for name in ("TCP", "HTTP", "QUIC", "WEBSOCKET")}
    start = start_of(tmp_path, **enabled)
    opened = open_data(
        start.configuration.settings, tmp_path, environment={}, default_credentials=True
    )
    server = RunningServer(start, tmp_path, opened)
    services, state = server._services, opened.state

    async def submitted(command: Command) -> None:
        await services.metadata.submit(Proposal(command, ROOT_USER_ID))

    def session() -> Session:
        return Session(77, "127.0.0.1:1", TransportKind.TCP, lambda: None, 0.0, joined=True)

    assert isinstance(services.metadata, MetadataPlane)
    await submitted(CreateStream("s"))
    await submitted(resolved(CreateTopic("s", "t", 1), services.metadata.defaults))
    await submitted(CreateConsumerGroup("s", "t", "g"))
    dropped, namesake = session(), session()
    services.sessions.add(dropped)
    # As the heartbeats drop a session: its connection lives on, its id is free.
    services.sessions.remove(dropped)
    services.sessions.add(namesake)
    assert namesake.client_id == 77
    await submitted(JoinGroup(0, 0, 0, 77))
    server._disconnected(dropped)
    await asyncio.gather(*server._leaving)
    assert 77 in state.memberships
    server._disconnected(namesake)
    await asyncio.gather(*server._leaving)
    assert 77 not in state.memberships
    await server.close()


def serve_once(directory: Path, stdout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail, without any credentials given."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BORZOI_", "IGGY_"))
    }
    environment |= {"BORZOI_SYSTEM_PATH": str(directory), "BORZOI_TCP_ADDRESS": "127.0.0.1:0"}
    with stdout.open("w") as output:
        return subprocess.run(
            [sys.executable, "-m", "borzoi", "serve"],
            env=environment | {f"BORZOI_{name}": value for name, value in variables.items()},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory.parent,
            check=False,
        )


@pytest.mark.system
def test_a_first_start_that_fails_does_not_lock_root_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    wrong_address = serve_once(data, tmp_path / "output", TCP_ADDRESS="192.0.2.1:8090")
    assert wrong_address.returncode == 1
    full = serve_once(data, Path("/dev/full"))
    assert full.returncode == 1
    assert "Traceback" not in full.stderr
    with running_server(directory=data, arguments=()) as server:
        password = server.output.split("  password     ")[1].split()[0]
        with WireClient(server.tcp_address) as client:
            client.login("iggy", password)
        assert server.stop() == 0
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login("iggy", password)
        assert server.stop() == 0


def test_a_server_of_one_process_loads_nothing_that_only_several_need() -> None:
    program = (
        "import sys, borzoi.server.process, borzoi.server.arguments;"
        "needed = ('bus', 'envelopes', 'line', 'routing', 'metadata_copy', 'metadata_copies');"
        "print([name for name in needed if f'borzoi.shard.{name}' in sys.modules])"
    )
    assert run_python("-c", program, check=True).stdout == "[]\n"
