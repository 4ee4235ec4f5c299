"""Two members of a group share the partitions of a topic.

Each message is read by one of them. When a member goes, the others get its partitions.
"""

import asyncio
import os
import sys
from datetime import timedelta
from uuid import uuid4

from apache_iggy import (
    AutoCommit,
    AutoCommitAfter,
    IggyClient,
    IggyConsumer,
    PollingStrategy,
    ReceiveMessage,
    SendMessage,
)

STREAM, TOPIC, GROUP = "consumer-group", "orders", "billing"
PARTITIONS, PER_PARTITION = 4, 25


async def connected(address: str) -> IggyClient:
    client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def join(client: IggyClient) -> IggyConsumer:
    """Every member has its own connection: a member is a connection."""
    return await client.consumer_group(
        GROUP,
        STREAM,
        TOPIC,
        polling_strategy=PollingStrategy.Next(),
        batch_length=10,
        # Commit after processing: a crash in between delivers the message again.
        auto_commit=AutoCommit.After(AutoCommitAfter.ConsumingEachMessage()),
        poll_interval=timedelta(milliseconds=10),
    )


async def produce(client: IggyClient) -> set[str]:
    """The orders that were sent, 25 to each partition."""
    sent: set[str] = set()
    for partition in range(PARTITIONS):
        orders = [f"order {uuid4()}" for _ in range(PER_PARTITION)]
        await client.send_messages(STREAM, TOPIC, partition, [SendMessage(one) for one in orders])
        sent.update(orders)
    return sent


async def main(address: str = "127.0.0.1:8090") -> None:
    client = await connected(address)
    if await client.get_stream(STREAM) is None:
        await client.create_stream(STREAM)
        await client.create_topic(STREAM, TOPIC, partitions_count=PARTITIONS)
    members = [await join(await connected(address)) for _ in range(2)]
    sent = await produce(client)
    unread, done = set(sent), asyncio.Event()

    async def consume(name: str, member: IggyConsumer) -> None:
        partitions: set[int] = set()

        async def handle(message: ReceiveMessage) -> None:
            partitions.add(message.partition_id())
            unread.discard(message.payload().decode())
            if not unread:
                done.set()

        await member.consume_messages(handle, done)
        print(f"{name} read partitions {sorted(partitions)}")

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for name, member in zip(("one", "the other"), members, strict=True):
            tasks.create_task(consume(name, member))
    print(f"{len(sent)} orders sent, {len(sent) - len(unread)} of them read")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    # The client's own threads may abort an interpreter that winds down, so it does not.
    sys.stdout.flush()
    os._exit(0)
