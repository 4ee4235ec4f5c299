"""Single shards of a server under the load of a real client are killed, again and again.

The others go on: their connections stay, and what the client was promised is there in the end.

`BORZOI_CRASH_CYCLES` says how often one is killed, `BORZOI_CRASH_SEED` repeats a choice.
"""

import os
import signal
import time
from contextlib import ExitStack
from functools import partial
from random import Random
from statistics import median

import pytest
from tests.crash.promises import Client, check, work_a_while
from tests.support.server import RunningServer, running_server
from tests.support.shard_processes import shard_of, shard_processes, wait_for
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.system import Ping
from borzoi.server import exit_statuses

pytestmark = pytest.mark.crash

SHARDS = 3
CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "6"))
SEED = int(os.environ.get("BORZOI_CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "little")

#: From the kill until the shard serves again, half of the times: a busy machine may be late.
ABSENT_SECONDS_MAX = 2.0

SETTINGS = {
    "SYSTEM_SHARDING_CPU_ALLOCATION": str(SHARDS),
    "SYSTEM_SEGMENT_SIZE": "1 MiB",  # so that kills hit segments that are being sealed
}


class Observers:
    """A connection to each shard, which only a death of its own shard may end."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self._server = server
        self._stack = stack
        self._clients: dict[int, WireClient] = {}

    def connect(self) -> None:
        """The kernel chooses the shard of a connection, so connect until each has one."""
        while len(self._clients) < SHARDS:
            client = WireClient(self._server.tcp_address)
            client.login()
            shard = shard_of(self._server, client)
            if shard is None or shard in self._clients:
                client.close()
            else:
                self._clients[shard] = self._stack.enter_context(client)

    def lose(self, shard: int) -> None:
        self._clients.pop(shard).close()

    def check(self) -> None:
        for client in self._clients.values():
            client.call(Ping())


def _is_ready_again(server: RunningServer, times: int) -> bool:
    return server.output.count("ready again") == times


def test_a_killed_shard_keeps_what_it_acknowledged_and_disturbs_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("apache_iggy", reason="apache-iggy is not there: uv sync installs it")
    random = Random(SEED)
    absent = []
    with running_server(SETTINGS) as server, ExitStack() as stack:
        client = Client(server.tcp_address, SEED)
        stack.callback(client.kill)
        observers = Observers(server, stack)
        try:
            for kills in range(1, CYCLES + 1):
                work_a_while(client, random)
                observers.connect()
                victim = random.randrange(SHARDS)
                os.kill(shard_processes(server)[victim], signal.SIGKILL)
                began = time.monotonic()
                observers.lose(victim)
                observers.check()
                wait_for(server, partial(_is_ready_again, server, kills))
                absent.append(time.monotonic() - began)
                observers.check()
            work_a_while(client, random)
            client.stop()
            found = check(server, client.promised)
            assert server.stop() == exit_statuses.OK
            server.start()
            assert check(server, client.promised) == found
        except Exception as fault:
            fault.add_note(f"seed {SEED}\n{server.output[-5000:]}")
            raise
    promised = client.promised
    assert median(absent) <= ABSENT_SECONDS_MAX, sorted(absent)
    late = sum(seconds > ABSENT_SECONDS_MAX for seconds in absent)
    with capsys.disabled():
        print(
            f"\n{CYCLES} kills of single shards, {promised.messages} messages in"
            f" {sum(map(len, promised.batches.values()))} batches acknowledged, {found} found,"
            f" 0 lost, 0 invented; {len(promised.read)} read, {len(promised.committed)} commits,"
            f" {promised.made} streams created; {promised.repeated} calls repeated,"
            f" {promised.replaced} given up; absent for"
            f" {median(absent):.1f} s, at most {max(absent):.1f} s, {late} times for more than"
            f" {ABSENT_SECONDS_MAX:.0f} s (seed {SEED})"
        )
