"""The supervisor with real processes; `shard_program.py` stands for the shards.

It runs in a process of its own, because signals belong to a process.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from borzoi.server.settings import Settings
from borzoi.server.supervisor import with_addresses

SHARD_PROGRAM = Path(__file__).with_name("shard_program.py")
#: Only to end what hangs.
SECONDS_MAX = 60.0

SUPERVISE = """
import os, sys
from pathlib import Path
from borzoi.server.config import load
from borzoi.server.data_directory import DataDirectory
from borzoi.server.launching import Start, launch
from borzoi.server.placement import Placement, Seat
from borzoi.server.signals import StopRequested, before_serving
from borzoi.server.supervisor import Supervisor

def supervise(start, directory):
    with Supervisor(start, directory.lock, command=[sys.executable, sys.argv[1]]) as supervisor:
        return supervisor.run()

before_serving()
placement = Placement((Seat(),) * int(sys.argv[2]))
configuration = load(os.environ, Path.cwd())
start = Start(configuration, False, False, False, dict(os.environ), placement)
try:
    status = launch(start, supervise)
except StopRequested as stop:
    print(f"stopped before it was ready, because of {stop}")
    status = 0
print("descriptors", len(os.listdir("/proc/self/fd")))
sys.exit(status)
"""


class Supervised:
    """A supervisor, and the diaries of its shards."""

    def __init__(self, folder: Path, shards: int, **variables: str) -> None:
        self.events = folder / "events"
        self.events.mkdir()
        self.shards = shards
        environment = {
            **{name: value for name, value in os.environ.items() if "BORZOI" not in name},
            "BORZOI_SYSTEM_PATH": str(folder / "data"),
            "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
            "SHARD_EVENTS": str(self.events),
            **variables,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISE, str(SHARD_PROGRAM), str(shards)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def notes(self, shard: int, process: int | None = None) -> list[str]:
        """What the shard has seen, over all its processes or in one of them."""
        wanted = f"{shard}-*" if process is None else f"{shard}-{process}"
        paths = sorted(self.events.glob(wanted), key=lambda path: path.stat().st_ctime_ns)
        return [line for path in paths for line in path.read_text().splitlines()]

    def processes(self, shard: int) -> list[int]:
        return [int(path.name.split("-")[1]) for path in self.events.glob(f"{shard}-*")]

    def living(self) -> dict[int, int]:
        """The processes that are there, by shard."""
        return {
            shard: process
            for shard in range(self.shards)
            for process in self.processes(shard)
            if Path(f"/proc/{process}/exe").exists()
        }

    def wait_for(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < until, [self.notes(shard) for shard in range(self.shards)]
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.01)

    def wait_until_ready(self) -> None:
        self.wait_for(lambda: "all ready" in self.notes(0))

    def ended(self) -> tuple[int, str]:
        """Its exit status and output, when it ends by itself; nothing of it is left."""
        output, _ = self.process.communicate(timeout=SECONDS_MAX)
        assert self.living() == {}
        return self.process.returncode, output

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        return self.ended()


def _has_noted(server: Supervised, shard: int, note: str) -> bool:
    return note in server.notes(shard)


def _has_lost(server: Supervised, times: int) -> bool:
    return server.notes(0).count("lost 1") == times


def _is_bound(server: Supervised, process: int) -> bool:
    return any("bound" in note for note in server.notes(1, process))


def _failed_without(server: Supervised, shard: int) -> str:
    """Kill the shard and wait for the server, which stops in order and fails; its output."""
    server.wait_until_ready()
    os.kill(server.living()[shard], signal.SIGKILL)
    status, output = server.ended()
    assert status == 70, output
    assert "drained" in server.notes(0)
    return output


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    started: list[Supervised] = []

    def start(shards: int, **variables: str) -> Supervised:
        started.append(Supervised(tmp_path, shards, **variables))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def test_shards_start_meet_and_stop_together(supervised: Callable[..., Supervised]) -> None:
    server = supervised(3)
    server.wait_until_ready()
    living = server.living()
    assert sorted(living) == [0, 1, 2]
    server.wait_for(lambda: all(len(server.notes(one)) >= 4 for one in range(3)))
    for shard in range(3):
        notes = server.notes(shard)
        assert "begin first 127.0.0.1:0" in notes
        others = {other: process for other, process in living.items() if other != shard}
        assert {f"met {other} {process}" for other, process in others.items()} <= set(notes)
    assert "bound ('127.0.0.1', 4242)" in server.notes(1)
    status, output = server.stop()
    assert status == 0, output
    for shard in range(3):
        assert server.notes(shard)[-2:] == ["stopped", "drained"]


def test_a_shard_that_is_killed_is_replaced_and_meets_the_others(
    supervised: Callable[..., Supervised],
) -> None:
    server = supervised(3)
    server.wait_until_ready()
    before = server.living()
    os.kill(before[1], signal.SIGKILL)
    server.wait_for(lambda: len(server.processes(1)) == 2 and 1 in server.living())
    new = server.living()[1]
    for other in (0, 2):
        expected = f"met 1 {new}"
        server.wait_for(partial(_has_noted, server, other, expected))
        notes = server.notes(other)
        assert notes.index("lost 1") < notes.index(expected)
        assert server.living()[other] == before[other]
    # Port 0 means any port only once.
    server.wait_for(lambda: "bound ('127.0.0.1', 4242)" in server.notes(1, new))
    assert "begin again 127.0.0.1:4242" in server.notes(1, new)
    status, output = server.stop()
    assert status == 0, output
    assert "shard 1 was ended by SIGKILL; restarting it" in output


def test_shard_0_is_replaced_as_well(supervised: Callable[..., Supervised]) -> None:
    server = supervised(2)
    server.wait_until_ready()
    os.kill(server.living()[0], signal.SIGKILL)
    server.wait_for(lambda: server.notes(0).count("all ready") == 2)
    assert server.stop()[0] == 0


def test_descriptors_do_not_pile_up_in_a_supervisor(supervised: Callable[..., Supervised]) -> None:
    server = supervised(2)
    server.wait_until_ready()
    descriptors = Path(f"/proc/{server.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for kill in range(1, 4):
        os.kill(server.living()[1], signal.SIGKILL)
        server.wait_for(partial(_has_lost, server, 2 * kill))
        server.wait_for(lambda: 1 in server.living())
        process = server.living()[1]
        server.wait_for(partial(_is_bound, server, process))
    assert len(list(descriptors.iterdir())) == before
    assert server.stop()[0] == 0


def test_without_restart_the_server_ends_with_its_shard(
    supervised: Callable[..., Supervised],
) -> None:
    output = _failed_without(supervised(3, BORZOI_SUPERVISOR_RESTART="false"), 2)
    assert "shard 2 was ended by SIGKILL, and supervisor.restart is false" in output


def test_a_shard_that_cannot_start_ends_the_start(supervised: Callable[..., Supervised]) -> None:
    status, output = supervised(2, SHARD_1="cannot start").ended()
    assert status == 1
    assert "shard 1 ended with status 1 before the server was ready" in output


def test_shards_that_fail_together_are_all_named(supervised: Callable[..., Supervised]) -> None:
    server = supervised(3, SHARD_0="cannot start when told", SHARD_1="cannot start when told")
    server.wait_for(lambda: all(_has_noted(server, shard, "waits") for shard in (0, 1)))
    # So that it finds both ended when it looks.
    server.process.send_signal(signal.SIGSTOP)
    (server.events / "fail").touch()
    server.wait_for(lambda: not server.living().keys() & {0, 1})
    server.process.send_signal(signal.SIGCONT)
    status, output = server.ended()
    assert status == 1
    for shard in (0, 1):
        assert f"shard {shard} ended with status 1 before the server was ready" in output
    assert "Traceback" not in output


def test_a_shard_that_cannot_start_again_is_given_up(supervised: Callable[..., Supervised]) -> None:
    output = _failed_without(supervised(2, SHARD_1="cannot start again"), 1)
    assert "shard 1 ended with status 1 5 times before it was ready" in output


def test_a_stop_while_it_starts_is_no_failure(supervised: Callable[..., Supervised]) -> None:
    server = supervised(2, SHARD_1="never ready")
    server.wait_for(lambda: any("bound" in note for note in server.notes(1)))
    status, output = server.stop(signal.SIGINT)
    assert status == 0, output
    assert "stopped before it was ready, because of SIGINT" in output


def test_a_failure_while_it_stops_is_told_by_the_status(
    supervised: Callable[..., Supervised],
) -> None:
    server = supervised(2, SHARD_1="fails at its end")
    server.wait_until_ready()
    status, output = server.stop()
    assert status == 70, output
    assert "shard 1 ended with status 70" in output


def test_a_signal_to_everybody_stops_gracefully_and_once(
    supervised: Callable[..., Supervised],
) -> None:
    server = supervised(2)
    server.wait_until_ready()
    os.killpg(server.process.pid, signal.SIGINT)
    status, output = server.ended()
    assert status == 0, output
    assert all(server.notes(shard)[-1] == "drained" for shard in range(2))


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_harmless_signal_to_everybody_while_they_start_ends_nobody(
    number: signal.Signals, supervised: Callable[..., Supervised]
) -> None:
    server = supervised(3)
    server.wait_for(lambda: len(children_of(server)) == 3)
    os.killpg(server.process.pid, number)
    server.wait_until_ready()
    assert server.stop()[0] == 0


def children_of(server: Supervised) -> list[str]:
    pid = server.process.pid
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_signal_to_everybody_while_they_start_is_a_stop(
    supervised: Callable[..., Supervised],
) -> None:
    """No process may die of it before the supervisor has seen it."""
    server = supervised(3)
    server.wait_for(lambda: len(children_of(server)) == 3)
    os.killpg(server.process.pid, signal.SIGTERM)
    status, output = server.ended()
    assert status == 0, output


def test_a_signal_to_one_shard_stops_the_server(supervised: Callable[..., Supervised]) -> None:
    server = supervised(2)
    server.wait_until_ready()
    os.kill(server.living()[1], signal.SIGTERM)
    status, output = server.ended()
    assert status == 0, output
    assert all(server.notes(shard)[-1] == "drained" for shard in range(2))


def test_other_signals_reach_the_shards_or_the_log(supervised: Callable[..., Supervised]) -> None:
    server = supervised(2)
    server.wait_until_ready()
    server.process.send_signal(signal.SIGHUP)
    server.process.send_signal(signal.SIGUSR1)
    log = server.events.parent / "data" / "logs" / "borzoi.log"
    server.wait_for(lambda: "SIGHUP is ignored" in log.read_text())
    assert sorted(server.living()) == [0, 1]
    assert server.stop()[0] == 0


def test_the_lock_is_held_as_long_as_a_shard_is_there(
    supervised: Callable[..., Supervised],
) -> None:
    """A supervisor that was killed may leave shards that still write."""
    server = supervised(2)
    server.wait_until_ready()
    lock = server.events.parent / "data" / "borzoi.lock"
    held = [
        os.readlink(f"/proc/{process}/fd/{name}")
        for process in server.living().values()
        for name in os.listdir(f"/proc/{process}/fd")
    ]
    assert held.count(str(lock)) == 2
    server.process.kill()
    server.process.wait()
    # They notice, and stop as if they had been told to.
    until = time.monotonic() + SECONDS_MAX
    while server.living():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert all(server.notes(shard)[-1] == "drained" for shard in range(2))


def test_bound_ports_replace_those_that_were_chosen() -> None:
    settings = with_addresses(Settings(), {"tcp": ("127.0.0.1", 1), "websocket": ("::1", 2)})
    assert settings.tcp.address == ("127.0.0.1", 1)
    assert settings.websocket.address == ("::1", 2)
    assert settings.http == Settings().http
