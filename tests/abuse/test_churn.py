"""Descriptors, memory and disk space come back after everything that takes them was done at random:
connect, create, fill, compress, poll, purge, delete, and hang up in the middle.

With one process, and with three shards, where most of it crosses from one process to another. A
small share runs with the other tests. The deep tier does as much as an hour at ten steps a second
(BORZOI_CHURN_STEPS of them), as fast as the server answers.
"""

import os
import re
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.support.server import RunningServer, running_server
from tests.support.shard_processes import shard_processes
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError
from borzoi.model.partitioning import Partitioning
from borzoi.model.topics import Compression
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.protocol.framing import encode_request
from borzoi.records.message import Message, encode_messages

pytestmark = pytest.mark.system

SETTINGS = {
    "SYSTEM_SEGMENT_SIZE": "64 KiB",
    # Compression and retention run all the time.
    "DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "DATA_MAINTENANCE_MESSAGES_INTERVAL": "1 s",
}
TOPICS = 6
PARTITIONS = 4
#: What a process may keep of memory that it had: caches, pools and arenas that are full now.
MEMORY_KIB_MAX = 48 * 1024
#: Offsets, the metadata log and its snapshot: not the messages.
DISK_BYTES_MAX = 4 << 20
PATIENCE_SECONDS = 120.0
#: What the server holds must not change for this long before it is taken as the start.
CALM_SECONDS = 3.0
#: A shard maps the arena of a peer with the first batch from there, whenever that is, and keeps it:
#: a copy of the descriptor, and the one of the mapping.
ARENA_DESCRIPTORS = 2
#: A long run prints what the server holds each time it has done this many.
PROGRESS_STEPS = 1000
#: What a step does, and how often.
STEPS = {
    "create": 4,
    "fill": 12,
    "poll": 8,
    "commit": 3,
    "hang_up": 3,
    "purge": 2,
    "reconnect": 1,
    "delete": 1,
    "delete_all": 0.2,
}
BATCH = encode_messages([Message(b"some words that can be compressed " * 30)] * 100)


class Counts:
    """What the server holds."""

    def __init__(self, server: RunningServer) -> None:
        pids = [server.process.pid, *shard_processes(server).values()]
        processes = [Path(f"/proc/{pid}") for pid in pids]
        lines = [line for one in processes for line in (one / "status").read_text().splitlines()]
        self.memory_kib = sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        self.disk_bytes = 0
        for folder, _, names in os.walk(server.directory):
            for name in names:
                try:
                    self.disk_bytes += (Path(folder) / name).stat().st_blocks * 512
                except FileNotFoundError:
                    continue
        #: How many descriptors there are of each file, or of each kind, in all processes.
        self.descriptors: Counter[str] = Counter()
        #: Those of the memory that shards share.
        self.arenas = 0
        self.deleted_but_open = 0
        for descriptor in (fd for process in processes for fd in (process / "fd").iterdir()):
            try:
                target = os.readlink(descriptor)
            except FileNotFoundError:
                continue
            if target.startswith("/memfd:borzoi-shard-"):
                self.arenas += 1
            else:
                self.descriptors[re.sub(r":\[\d+\]", "", target)] += 1
            is_own = target.startswith(str(server.directory))
            self.deleted_but_open += is_own and target.endswith("(deleted)")

    def __str__(self) -> str:
        return (
            f"{self.descriptors.total()} descriptors ({self.deleted_but_open} of deleted files)"
            f" and {self.arenas} of arenas,"
            f" {self.memory_kib / 1024:.0f} MiB resident, {self.disk_bytes / 1024:.0f} KiB on disk"
        )


class Churn:
    """One client that does whatever comes; what is not there is refused, and that is fine."""

    def __init__(self, server: RunningServer, random: Random) -> None:
        self._server = server
        self._random = random
        self.client = self._connected()
        self.done: dict[str, int] = {}

    def _connected(self) -> WireClient:
        client = WireClient(self._server.tcp_address)
        client.login()
        return client

    def reconnect(self) -> None:
        self.client.close()
        self.client = self._connected()

    def step(self) -> None:
        name = self._random.choices(list(STEPS), list(STEPS.values()))[0]
        self.done[name] = self.done.get(name, 0) + 1
        try:
            getattr(self, f"_{name}")(f"t{self._random.randrange(TOPICS)}")
        except BorzoiError:
            pass  # it is not there, or is there already

    def _create(self, topic: str) -> None:
        algorithm = self._random.choice([Compression.NONE, Compression.GZIP])
        if self._random.random() < 0.1:
            self.client.call(CreateStream("s"))
        self.client.call(CreateTopic("s", topic, PARTITIONS, algorithm))

    def _fill(self, topic: str) -> None:
        indexes, messages = (memoryview(part) for part in BATCH)
        for partition in range(PARTITIONS):
            place = Partitioning.partition(partition)
            self.client.call(SendMessages("s", topic, place, 100, indexes, messages))

    def _polling(self, topic: str) -> PollMessages:
        reader = Consumer(ConsumerKind.CONSUMER, self._random.randrange(1, 5))
        partition = self._random.randrange(PARTITIONS)
        return PollMessages(reader, "s", topic, partition, PollingStrategy.first(), 1000, False)

    def _poll(self, topic: str) -> None:
        self.client.call(self._polling(topic))

    def _commit(self, topic: str) -> None:
        reader = Consumer(ConsumerKind.CONSUMER, self._random.randrange(1, 5))
        self.client.call(StoreConsumerOffset(reader, "s", topic, 0, 1))

    def _hang_up(self, topic: str) -> None:
        """Ask for much, read hardly anything, and go."""
        other = self._connected()
        other.send(encode_request(self._polling(topic)) * 5)
        other.close()

    def _reconnect(self, _: str) -> None:
        self.reconnect()

    def _purge(self, topic: str) -> None:
        whole = self._random.random() < 0.2
        self.client.call(PurgeStream("s") if whole else PurgeTopic("s", topic))

    def _delete(self, topic: str) -> None:
        self.client.call(DeleteTopic("s", topic))

    def _delete_all(self, _: str) -> None:
        self.client.call(DeleteStream("s"))


def calm(server: RunningServer) -> Counts:
    """What it holds once that does not change any more."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found, since = Counts(server), time.monotonic()
    while time.monotonic() < min(deadline, since + CALM_SECONDS):
        time.sleep(0.2)
        now = Counts(server)
        if now.descriptors != found.descriptors or now.deleted_but_open:
            found, since = now, time.monotonic()
    return found


def settled(server: RunningServer, before: Counts) -> Counts:
    """What it holds once files that were deleted are gone, which takes a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        now = Counts(server)
        is_settled = (
            now.descriptors == before.descriptors
            and now.disk_bytes <= before.disk_bytes + DISK_BYTES_MAX
        )
        if is_settled or time.monotonic() > deadline:
            return now
        time.sleep(0.2)


@pytest.mark.parametrize(
    "steps",
    [
        60,
        pytest.param(
            int(os.environ.get("BORZOI_CHURN_STEPS", "36000")), marks=pytest.mark.deep, id="hour"
        ),
    ],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_descriptors_memory_and_disk_space_return_to_where_they_began(
    steps: int, shards: int
) -> None:
    settings = {**SETTINGS, "SYSTEM_SHARDING_CPU_ALLOCATION": str(shards)}
    processes = shards if shards == 1 else shards + 1
    with running_server(settings) as server:
        arenas = Counts(server).arenas
        churn = Churn(server, Random(steps))
        # The first round fills caches and pools, which stay.
        for count in (max(steps // 10, 30), steps):
            churn.client.call(CreateStream("s"))
            began = time.monotonic()
            for number in range(count):
                if number and number % PROGRESS_STEPS == 0:
                    seconds = time.monotonic() - began
                    print(f"{number} steps in {seconds:.0f} s: {Counts(server)}", flush=True)
                churn.step()
            try:
                churn.client.call(DeleteStream("s"))
            except BorzoiError:
                pass  # gone already
            # Other shards may have the socket of a connection until it ends.
            churn.reconnect()
            if count == steps:
                break
            before = calm(server)
        after = settled(server, before)
        print(f"\n{steps} steps: {churn.done}\nbefore: {before}\nafter:  {after}")
        assert after.descriptors == before.descriptors
        assert after.arenas <= arenas + ARENA_DESCRIPTORS * shards * (shards - 1)
        assert after.deleted_but_open == 0
        assert after.memory_kib <= before.memory_kib + MEMORY_KIB_MAX * processes
        assert after.disk_bytes <= before.disk_bytes + DISK_BYTES_MAX
        assert "Traceback" not in server.output
        churn.client.close()
