"""Single shards of a server under the load of a real client are killed, again and again.

The others go on: their connections stay, and what the client was promised is there in the end.

`BORZOI_CRASH_CYCLES` says how often one is killed, `BORZOI_CRASH_SEED` repeats a choice.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from random import Random
from statistics import median

import pytest
from tests.crash.promises import Client, check, work_a_while
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.shard_processes import shard_of, shard_processes, wait_for
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import ShardUnavailable
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.records.message import decode_messages
from borzoi.server import exit_statuses

pytestmark = pytest.mark.crash

SHARDS = 3
CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "6"))
SEED = int(os.environ.get("BORZOI_CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "little")

#: From the kill until the shard serves again, half of the times: a busy machine may be late.
ABSENT_SECONDS_MAX = 2.0

#: Such a batch crosses as its place, and its owner answers.
LARGE_BYTES = 100_000

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


class LargeProducer(threading.Thread):
    """Sends batches that owners on other shards answer themselves, each of them by a key of its
    own. Behind each it asks who it is: with an answer too many it would get an empty one."""

    def __init__(self, address: tuple[str, int], numbers: Iterator[int]) -> None:
        super().__init__()
        self._address = address
        self._numbers = numbers
        self._stop_asked = threading.Event()
        self.acknowledged: list[int] = []
        self.refused = self.connections = 0
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                try:
                    self._connected()
                except (ConnectionError, ShardUnavailable):
                    time.sleep(0.01)
        except Exception as fault:
            self.fault = fault

    def _connected(self) -> None:
        with WireClient(self._address) as client:
            client.login()
            self.connections += 1
            while not self._stop_asked.is_set():
                number = next(self._numbers)
                payload = b"%d" % number + bytes(LARGE_BYTES)
                partitioning = Partitioning.key(b"%d" % number)
                try:
                    client.call(send_of(payload, stream="large", partitioning=partitioning))
                    self.acknowledged.append(number)
                except ShardUnavailable:
                    self.refused += 1
                me = client.call(GetMe())
                assert me is not None, "the answer to another request"
                assert me.address.endswith(f":{client.address[1]}")

    def end(self) -> None:
        self._stop_asked.set()
        self.join()
        if self.fault is not None:
            raise self.fault


def test_a_large_send_is_answered_once_whichever_shard_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    random = Random(SEED)
    with running_server(SETTINGS) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateStream("large"))
            client.call(CreateTopic("large", "t", 12))
        producers = [LargeProducer(server.tcp_address, count(first, 2)) for first in range(2)]
        for producer in producers:
            producer.start()
        try:
            for kills in range(1, CYCLES + 1):
                time.sleep(random.random() * 0.2)
                os.kill(shard_processes(server)[random.randrange(SHARDS)], signal.SIGKILL)
                wait_for(server, partial(_is_ready_again, server, kills))
        except Exception as fault:
            fault.add_note(f"seed {SEED}\n{server.output[-5000:]}")
            raise
        finally:
            for producer in producers:
                producer.end()
        found = _numbers_in(server)
        assert server.stop() == exit_statuses.OK
    for producer in producers:
        lost = [number for number in producer.acknowledged if not found[number]]
        assert not lost, f"seed {SEED}"
    acknowledged = sum(len(producer.acknowledged) for producer in producers)
    with capsys.disabled():
        print(
            f"\n{CYCLES} kills, {acknowledged} large sends acknowledged and found,"
            f" {sum(producer.refused for producer in producers)} refused,"
            f" {sum(producer.connections for producer in producers)} connections (seed {SEED})"
        )


def _numbers_in(server: RunningServer) -> Counter[int]:
    """How often each of the numbers is there."""
    found: Counter[int] = Counter()
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    with WireClient(server.tcp_address) as client:
        client.login()
        for partition in range(12):
            offset = 0
            while True:
                strategy = PollingStrategy.offset(offset)
                poll = PollMessages(consumer, "large", "t", partition, strategy, 100, False)
                messages = list(decode_messages(client.call(poll).messages))
                if not messages:
                    break
                found.update(int(bytes(one.payload).rstrip(b"\0")) for one in messages)
                offset += len(messages)
    return found
