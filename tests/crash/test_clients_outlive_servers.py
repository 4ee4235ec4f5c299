"""A server is killed and started again under a producer and a group of consumers.

No acknowledged message is lost, each partition is read in order, and everyone goes on without help.
`BORZOI_CRASH_CYCLES` says how often it is killed.
"""

import asyncio
import os
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from borzoi.client import AsyncClient, AsyncProducer, Client, Message
from borzoi.client.messages import Payload
from borzoi.testing import Server

# By name only: see "Known" in docs/client.md.
pytestmark = [pytest.mark.crash, pytest.mark.slow]

CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "20"))
PARTITIONS = 4
TOPIC = "orders/events"

#: What has to happen between two kills.
ACKNOWLEDGED_MIN, READ_MIN = 200, 200
PATIENCE_SECONDS = 300.0


@dataclass
class Produced:
    """What the producer was told."""

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
    #: Partition → where in `read` each time begins in which the partition was ours.
    assigned_at: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    is_over: bool = False

    async def run(self, url: str) -> None:
        async with AsyncClient(url, timeout=PATIENCE_SECONDS) as client:
            async with client.consumer(
                TOPIC, group="billing", poll_interval=0.02, on_assigned=self.assigned
            ) as consumer:
                while not self.is_over:
                    try:
                        async with asyncio.timeout(0.5):
                            self.read.append(await anext(consumer))
                    except TimeoutError:
                        continue

    def assigned(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            self.assigned_at[partition].append(len(self.read))

    def check_order(self) -> None:
        """While a partition is ours its messages come in the order of their offsets, each once."""
        for partition, starts in self.assigned_at.items():
            for start, end in zip(starts, [*starts[1:], len(self.read)], strict=True):
                given = [m.offset for m in self.read[start:end] if m.partition == partition]
                assert given == sorted(set(given)), f"partition {partition}"


async def until(condition) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


def stored_texts(url: str) -> list[list[str]]:
    with Client(url) as client:
        return [
            [m.text() for m in client.consumer(TOPIC, partitions=[partition], follow=False)]
            for partition in range(PARTITIONS)
        ]


@pytest.mark.parametrize("drops_duplicates", [True, False], ids=["deduplication", "plain"])
async def test_a_producer_and_a_group_outlive_their_server(drops_duplicates: bool) -> None:
    settings = {"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": str(drops_duplicates).lower()}
    with Server(settings) as server:
        produced, members = Produced(), [Member(), Member()]
        async with AsyncClient(server.url, timeout=PATIENCE_SECONDS) as client:
            await client.ensure_topic(TOPIC, partitions=PARTITIONS)
            async with client.producer(TOPIC, background=True) as producer:
                tasks = [asyncio.create_task(produced.run(producer))]
                tasks += [asyncio.create_task(member.run(server.url)) for member in members]
                # A first connection is tried once, by design: kill no server before it is made.
                await until(lambda: all(member.assigned_at for member in members))
                for _ in range(CYCLES):
                    acknowledged = len(produced.acknowledged) + ACKNOWLEDGED_MIN
                    read = sum(len(member.read) for member in members) + READ_MIN
                    await until(
                        lambda acknowledged=acknowledged, read=read: (
                            len(produced.acknowledged) >= acknowledged
                            and sum(len(member.read) for member in members) >= read
                        )
                    )
                    assert not any(task.done() for task in tasks), [t for t in tasks if t.done()]
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                produced.is_over = True
                await tasks[0]
        stored = await asyncio.to_thread(stored_texts, server.url)
        offsets = {(p, offset) for p, texts in enumerate(stored) for offset in range(len(texts))}
        await until(
            lambda: {(m.partition, m.offset) for member in members for m in member.read} >= offsets
        )
        for member in members:
            member.is_over = True
        await asyncio.gather(*tasks)
    assert len(produced.acknowledged) == produced.sent
    for partition, texts in enumerate(stored):
        numbers = [int(text.partition(":")[2]) for text in texts]
        # Each number once if the server drops duplicates; else a batch may be there twice.
        assert list(dict.fromkeys(numbers)) == list(range(numbers[-1] + 1)), partition
        if drops_duplicates:
            assert len(numbers) == len(set(numbers))
    assert produced.acknowledged <= {text for texts in stored for text in texts}
    for member in members:
        member.check_order()
        assert member.read
    print(f"{produced.sent} sent, {sum(map(len, stored))} stored, {CYCLES} kills")
