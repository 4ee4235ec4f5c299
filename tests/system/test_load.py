"""Two hundred connections with random requests, some of them invalid, that come and go.

What each does is drawn from a seed. `BORZOI_LOAD_SECONDS` says for how long (10 unless told, 120 on
demand; a slow machine takes longer until enough was answered) and `BORZOI_LOAD_SEED` which draw.
Afterwards the server has nothing to say that is its own
fault, has given its memory back, and has left a directory in which every byte is accounted for.
"""

import asyncio
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.support.interpreter import run_python
from tests.support.listening import FrameClient
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.catalog import Request
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream, GetStreams
from borzoi.protocol.commands.system import GetClients, GetMe, GetStats, Ping, Stats
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    LoginWithPersonalAccessToken,
    RawToken,
)
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, PurgeTopic
from borzoi.protocol.commands.users import GetUsers
from borzoi.protocol.framing import encode_request
from borzoi.records.message import Message, encode_messages

pytestmark = pytest.mark.system

SECONDS = float(os.environ.get("BORZOI_LOAD_SECONDS", "10"))
SEED = int(os.environ.get("BORZOI_LOAD_SEED", "20260316"))
CONNECTIONS = 200
WARM_UP_SECONDS = 5.0
GARBAGE_SHARE = 0.01
DISCONNECT_SHARE = 0.01
#: What is left of the memory of a load once pools and allocator were trimmed, over what there was.
GROWTH_MAX = 1.2
TRIM_SECONDS_MAX = 120.0
#: However slow the machine is, a load is at least this much.
ANSWERED_MIN = 5 * CONNECTIONS
#: What waits for the disk waits in turn, so on a slow one only so many ask for it at once, and have
#: time.
CHANGES_AT_ONCE = 8
PATIENCE_SECONDS = 300.0
TOPICS = 4
PARTITIONS = 3
CLOSED = (ConnectionError, asyncio.IncompleteReadError)

Draw = Callable[[random.Random], Request]


def topic(rng: random.Random) -> str:
    return f"t{rng.randrange(TOPICS)}"


def consumer(rng: random.Random) -> Consumer:
    if rng.random() < 0.5:
        return Consumer(ConsumerKind.GROUP, "g")
    return Consumer(ConsumerKind.CONSUMER, rng.randrange(1, 20))


def send(rng: random.Random) -> Request:
    size = rng.choice((10, 100, 1000, 1000, 100_000))
    count = 1 if size > 1000 else rng.randrange(1, 20)
    indexes, messages = encode_messages([Message(rng.randbytes(size)) for _ in range(count)])
    partitioning = rng.choice(
        (
            Partitioning.balanced(),
            Partitioning.partition(rng.randrange(PARTITIONS + 1)),
            Partitioning.key(rng.randbytes(4)),
        )
    )
    views = memoryview(indexes), memoryview(messages)
    return SendMessages("s", topic(rng), partitioning, count, *views)


def poll(rng: random.Random) -> Request:
    strategy = rng.choice(
        (
            PollingStrategy.first(),
            PollingStrategy.last(),
            PollingStrategy.next(),
            PollingStrategy.offset(rng.randrange(1000)),
        )
    )
    partition = rng.choice((None, rng.randrange(PARTITIONS)))
    count = rng.choice((1, 10, 100))
    return PollMessages(
        consumer(rng), "s", topic(rng), partition, strategy, count, rng.random() < 0.5
    )


def partition(rng: random.Random) -> int:
    return rng.randrange(PARTITIONS)


#: What a connection may do, and how often among the others.
DRAWS: Sequence[tuple[int, Draw]] = (
    (30, send),
    (30, poll),
    (5, lambda rng: Ping()),
    (2, lambda rng: GetMe()),
    (2, lambda rng: GetStreams()),
    (2, lambda rng: GetStream("s")),
    (2, lambda rng: GetTopic("s", topic(rng))),
    (1, lambda rng: GetClients()),
    (1, lambda rng: GetUsers()),
    (1, lambda rng: GetStats()),
    (4, lambda rng: JoinConsumerGroup("s", topic(rng), "g")),
    (2, lambda rng: LeaveConsumerGroup("s", topic(rng), "g")),
    (2, lambda rng: GetConsumerGroup("s", topic(rng), "g")),
    (4, lambda rng: StoreConsumerOffset(consumer(rng), "s", topic(rng), partition(rng), 0)),
    (4, lambda rng: GetConsumerOffset(consumer(rng), "s", topic(rng), partition(rng))),
    (1, lambda rng: FlushUnsavedBuffer("s", topic(rng), partition(rng), False)),
    # One topic only: purges wait for each other, and the last of them would leave nothing at all.
    (1, lambda rng: PurgeTopic("s", "t0")),
    (1, lambda rng: CreateStream(f"s{rng.randrange(5)}")),
    (1, lambda rng: DeleteStream(f"s{rng.randrange(5)}")),
    (1, lambda rng: CreateTopic(f"s{rng.randrange(5)}", f"t{rng.randrange(5)}", 1)),
)
WEIGHTS = [weight for weight, _ in DRAWS]
CHANGES = (PurgeTopic, CreateStream, DeleteStream, CreateTopic)


def garbage(rng: random.Random) -> bytes:
    """Bytes that are no frame, half a frame, or a frame with one byte changed."""
    frame = bytearray(encode_request(rng.choice(DRAWS)[1](rng)))
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 100))
    if kind == 1:
        return bytes(frame[: rng.randrange(len(frame))])
    frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
    return bytes(frame)


class Load:
    """One draw of everything, against one server."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self._address = address
        self._token = token
        self._end = 0.0
        self._enough = 0
        self._changing = asyncio.Semaphore(CHANGES_AT_ONCE)
        self.counts: Counter[str] = Counter()

    async def run(self, seed: int, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._enough = self.counts["answered"] + ANSWERED_MIN
        self._changing = asyncio.Semaphore(CHANGES_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for number in range(CONNECTIONS):
                group.create_task(self._connection(random.Random(seed * 1000 + number)))

    @property
    def _goes_on(self) -> bool:
        return time.monotonic() < self._end or self.counts["answered"] < self._enough

    async def _connection(self, rng: random.Random) -> None:
        while self._goes_on:
            client = await FrameClient.connect(self._address)
            client.patience_seconds = PATIENCE_SECONDS
            try:
                await self._session(client, rng)
            except CLOSED:
                self.counts["closed by the server"] += 1
            finally:
                client.writer.transport.abort()

    async def _session(self, client: FrameClient, rng: random.Random) -> None:
        await client.call(LoginWithPersonalAccessToken(self._token))
        while self._goes_on:
            chance = rng.random()
            if chance < DISCONNECT_SHARE:
                self.counts["disconnected"] += 1
                # Often with a pending request, whose answer is lost.
                client.writer.write(encode_request(send(rng)) if rng.random() < 0.5 else b"")
                return
            if chance < DISCONNECT_SHARE + GARBAGE_SHARE:
                self.counts["garbage"] += 1
                await client.send(garbage(rng))
                # What follows may be taken for the rest of it, so nothing can be waited for.
                await client.send(encode_request(Ping()))
                return
            (_, draw), *_ = rng.choices(DRAWS, WEIGHTS)
            request = draw(rng)
            if isinstance(request, CHANGES) and time.monotonic() > self._end:
                # What is still missing need not wait for a disk that is slow.
                continue
            try:
                async with self._changing if isinstance(request, CHANGES) else nullcontext():
                    await client.call(request)
                self.counts["answered"] += 1
            except BorzoiError:
                self.counts["refused"] += 1


def prepared(server: RunningServer) -> str:
    """The topics everyone works on, and the token everyone logs in with."""
    with WireClient(server.tcp_address) as root:
        root.login()
        root.call(CreateStream("s"))
        for number in range(TOPICS):
            root.call(CreateTopic("s", f"t{number}", PARTITIONS))
            root.call(CreateConsumerGroup("s", f"t{number}", "g"))
        token = root.call(CreatePersonalAccessToken("load", 0))
        assert isinstance(token, RawToken)
        return token.token


def stats_of(server: RunningServer) -> Stats:
    with WireClient(server.tcp_address) as root:
        root.login()
        stats = root.call(GetStats())
        assert isinstance(stats, Stats)
        return stats


def settled(server: RunningServer, start: int) -> Stats:
    """Once the memory is within the bound and the clients are gone, or as it still is when the
    trimming had its time."""
    until = time.monotonic() + TRIM_SECONDS_MAX
    while True:
        stats = stats_of(server)
        if stats.memory_usage <= start * GROWTH_MAX and stats.clients_count == 1:
            return stats
        if time.monotonic() > until:
            return stats
        time.sleep(1)


def complaints(server: RunningServer) -> list[str]:
    logs = "".join(path.read_text() for path in (server.directory / "logs").glob("*.log*"))
    bad = (" ERROR ", " CRITICAL ", "Traceback", "never retrieved", "Exception in callback")
    lines = (logs + server.output).splitlines()
    return [line for line in lines if any(word in line for word in bad)]


def verified(directory: Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "borzoi", "log", "verify", directory)


def test_a_load_leaves_no_complaint_no_memory_and_no_damage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running_server({"SYSTEM_SEGMENT_SIZE": "4 MiB"}) as server:
        load = Load(server.tcp_address, prepared(server))
        # The first requests load code and make threads, which stay: that is not what is measured.
        asyncio.run(load.run(SEED, WARM_UP_SECONDS))
        start = stats_of(server).memory_usage
        asyncio.run(load.run(SEED + 1, SECONDS))
        stats = settled(server, start)
        memory = stats.memory_usage
        assert server.stop() == 0
        with capsys.disabled():
            print(
                f"\nload, seed {SEED}, {SECONDS:.0f} s: {dict(load.counts)};"
                f" {stats.messages_count} messages; memory {start >> 20} → {memory >> 20} MiB"
            )
        assert complaints(server) == []
        assert stats.clients_count == 1
        assert stats.messages_count > CONNECTIONS
        assert memory <= start * GROWTH_MAX
        found = verified(server.directory)
        assert found.returncode == 0, found.stdout + found.stderr
