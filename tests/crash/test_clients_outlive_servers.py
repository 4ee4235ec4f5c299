"""A server is killed and started again under a producer and a group of consumers.

No acknowledged message is lost, each partition is read in order, and everyone goes on without help.
`BORZOI_CRASH_CYCLES` says how often it is killed.
"""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import pytest

from borzoi.client import AsyncClient, AsyncProducer, Client, Message, Producer
from borzoi.client.messages import Payload
from borzoi.testing import Server

# By name only: forty kills take one to two minutes, and longer than its patience on a machine that
# is overloaded many times over.
pytestmark = [pytest.mark.crash, pytest.mark.slow]

CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "20"))
PARTITIONS = 4
TOPIC = "orders/events"

#: What has to happen between two kills.
ACKNOWLEDGED_MIN, READ_MIN = 200, 200

#: Only to end what hangs; what goes wrong ends the test at once.
PATIENCE_SECONDS = 180.0


@dataclass
class Produced:
    """What the producer has sent, and what was acknowledged."""

    acknowledged: set[str] = field(default_factory=set)
    sent: int = 0
    is_over: bool = False

    async def run(self, producer: AsyncProducer[Payload]) -> None:
        """Numbered messages, each partition in turn; those that were stored are noted."""
        numbers = [0] * PARTITIONS
        noting: list[asyncio.Task[None]] = []
        while not self.is_over:
            for partition in range(PARTITIONS):
                text = f"{partition}:{numbers[partition]}"
                numbers[partition] += 1
                outcome = await producer.send(text, partition=partition)
                noting.append(asyncio.create_task(self._note(text, outcome.wait())))
            self.sent = sum(numbers)
            await asyncio.sleep(0.001)
        await asyncio.gather(*noting)

    async def _note(self, text: str, stored) -> None:
        await stored
        self.acknowledged.add(text)


@dataclass
class Member:
    """What one member of the group was given."""

    read: list[Message] = field(default_factory=list)
    #: Partition → the offset that was given last since the partition was assigned.
    given: dict[int, int] = field(default_factory=dict)
    is_over: bool = False

    def run_blocking(self, url: str) -> None:
        with (
            Client(url, timeout=PATIENCE_SECONDS) as client,
            client.consumer(
                TOPIC, group="billing", follow=False, on_assigned=self.assigned
            ) as consumer,
        ):
            while not self.is_over:
                for message in consumer:
                    self.take(message)
                time.sleep(0.02)  # all partitions were read to their ends

    async def run(self, url: str) -> None:
        async with AsyncClient(url, timeout=PATIENCE_SECONDS) as client:
            async with client.consumer(
                TOPIC, group="billing", poll_interval=0.02, on_assigned=self.assigned
            ) as consumer:
                while not self.is_over:
                    try:
                        async with asyncio.timeout(0.5):
                            message = await anext(consumer)
                    except TimeoutError:
                        continue
                    self.take(message)

    def assigned(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            self.given[partition] = -1

    def take(self, message: Message) -> None:
        """While a partition is ours its messages come in the order of their offsets, each once."""
        self.read.append(message)
        last = self.given[message.partition]
        assert message.offset > last, f"{message.partition}: {message.offset} came after {last}"
        self.given[message.partition] = message.offset


async def until(condition) -> None:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() < begun + PATIENCE_SECONDS, awaited()
        await asyncio.sleep(0.005)


def awaited() -> str:
    """What each task waits for: where a hang is."""
    lines = []
    for task in asyncio.all_tasks():
        places: list[str] = []
        inner: Any = task.get_coro()
        while inner is not None:
            code = getattr(inner, "cr_code", None) or getattr(inner, "ag_code", None)
            frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
            places.append(f"{code.co_name}:{frame.f_lineno}" if code and frame else repr(inner))
            inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
        lines.append(f"{task.get_name()}: {' > '.join(places)}")
    return "the patience is over while these wait:\n" + "\n".join(sorted(lines))


async def until_more(produced: Produced, members: list[Member]) -> None:
    """Returns when this much more was acknowledged and read."""
    acknowledged = len(produced.acknowledged) + ACKNOWLEDGED_MIN
    read = sum(len(member.read) for member in members) + READ_MIN
    await until(
        lambda: (
            len(produced.acknowledged) >= acknowledged
            and sum(len(member.read) for member in members) >= read
        )
    )


def stored_texts(url: str) -> list[list[str]]:
    with Client(url) as client:
        return [
            [m.text() for m in client.consumer(TOPIC, partitions=[partition], follow=False)]
            for partition in range(PARTITIONS)
        ]


def check_stored(
    stored: list[list[str]], acknowledged: set[str], *, drops_duplicates: bool
) -> None:
    for partition, texts in enumerate(stored):
        numbers = [int(text.partition(":")[2]) for text in texts]
        # Each number once if the server drops duplicates; else a batch may be there twice.
        assert list(dict.fromkeys(numbers)) == list(range(numbers[-1] + 1)), partition
        if drops_duplicates:
            assert len(numbers) == len(set(numbers))
    assert acknowledged <= {text for texts in stored for text in texts}


@pytest.mark.parametrize("drops_duplicates", [True, False], ids=["deduplication", "plain"])
async def test_a_producer_and_a_group_outlive_their_server(drops_duplicates: bool) -> None:
    settings = {"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": str(drops_duplicates).lower()}
    with Server(settings) as server:
        produced, members = Produced(), [Member(), Member()]
        async with AsyncClient(server.url, timeout=PATIENCE_SECONDS) as client:
            await client.ensure_topic(TOPIC, partitions=PARTITIONS)
            async with asyncio.TaskGroup() as group, client.producer(TOPIC, background=True) as out:
                sending = group.create_task(produced.run(out))
                for member in members:
                    group.create_task(member.run(server.url))
                # A first connection is tried once, by design: kill no server before it is made.
                await until(lambda: all(member.given for member in members))
                for _ in range(CYCLES):
                    await until_more(produced, members)
                    await asyncio.to_thread(server.restart)
                produced.is_over = True
                await sending
                stored = await asyncio.to_thread(stored_texts, server.url)
                offsets = {(p, at) for p, texts in enumerate(stored) for at in range(len(texts))}
                await until(
                    lambda: (
                        {(m.partition, m.offset) for one in members for m in one.read} >= offsets
                    )
                )
                for member in members:
                    member.is_over = True
    assert len(produced.acknowledged) == produced.sent
    check_stored(stored, produced.acknowledged, drops_duplicates=drops_duplicates)
    assert all(member.read for member in members)
    print(f"{produced.sent} sent, {sum(map(len, stored))} stored, {CYCLES} kills")


# ---- the same with blocking calls ---------------------------------------------------------------


def produce(produced: Produced, producer: Producer[Payload], outcomes: "SimpleQueue[Any]") -> None:
    numbers = [0] * PARTITIONS
    while not produced.is_over:
        for partition in range(PARTITIONS):
            text = f"{partition}:{numbers[partition]}"
            numbers[partition] += 1
            outcomes.put((text, producer.send(text, partition=partition)))
        produced.sent = sum(numbers)
        time.sleep(0.001)
    outcomes.put(None)


def note(produced: Produced, outcomes: "SimpleQueue[Any]") -> None:
    while (each := outcomes.get()) is not None:
        text, outcome = each
        outcome.wait()
        produced.acknowledged.add(text)


def wait_until(condition: Callable[[], bool], running: list["Future[None]"]) -> None:
    begun = time.monotonic()
    while not condition():
        for thread in running:
            if thread.done():
                thread.result()  # what it raised is why nothing comes
        assert time.monotonic() < begun + PATIENCE_SECONDS
        time.sleep(0.005)


@pytest.mark.parametrize("drops_duplicates", [True, False], ids=["deduplication", "plain"])
def test_blocking_clients_outlive_their_server(drops_duplicates: bool) -> None:
    settings = {"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": str(drops_duplicates).lower()}
    produced, members = Produced(), [Member(), Member()]
    outcomes: SimpleQueue[Any] = SimpleQueue()

    def read() -> int:
        return sum(len(member.read) for member in members)

    def more_than(acknowledged: int, seen: int) -> Callable[[], bool]:
        return lambda: (
            len(produced.acknowledged) >= acknowledged + ACKNOWLEDGED_MIN
            and read() >= seen + READ_MIN
        )

    with Server(settings) as server, Client(server.url, timeout=PATIENCE_SECONDS) as client:
        client.ensure_topic(TOPIC, partitions=PARTITIONS)
        with ThreadPoolExecutor(4) as pool, client.producer(TOPIC, background=True) as out:
            running = [pool.submit(member.run_blocking, server.url) for member in members]
            try:
                wait_until(lambda: all(member.given for member in members), running)
                busy = [
                    pool.submit(produce, produced, out, outcomes),
                    pool.submit(note, produced, outcomes),
                ]
                for _ in range(CYCLES):
                    wait_until(more_than(len(produced.acknowledged), read()), [*running, *busy])
                    server.restart()
                produced.is_over = True
                for thread in busy:
                    thread.result()
                stored = stored_texts(server.url)
                offsets = {(p, at) for p, texts in enumerate(stored) for at in range(len(texts))}
                wait_until(
                    lambda: (
                        {(m.partition, m.offset) for one in members for m in one.read} >= offsets
                    ),
                    running,
                )
            except BaseException:
                # Without a server its threads would wait as long as their patience lasts.
                client.close()
                raise
            finally:
                produced.is_over = True
                for member in members:
                    member.is_over = True
            for thread in running:
                thread.result()
    assert len(produced.acknowledged) == produced.sent
    check_stored(stored, produced.acknowledged, drops_duplicates=drops_duplicates)
    assert all(member.read for member in members)
    print(f"{produced.sent} sent, {sum(map(len, stored))} stored, {CYCLES} kills")
