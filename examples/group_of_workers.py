"""Two workers share the partitions of a topic; each order is handled by one of them."""

import asyncio
import sys
from collections import Counter

from borzoi.client import AsyncClient, Message

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"
ORDERS = 200


async def work(
    name: str, server: str, handled: Counter[str], joined: asyncio.Barrier, done: asyncio.Event
) -> None:
    # A member of a group is a connection, so each worker has its own client.
    async with AsyncClient(server) as client:
        async with client.consumer("shop/jobs", group="workers", commit="each") as consumer:

            async def handle(message: Message) -> None:
                handled[name] += 1
                if handled.total() == ORDERS:
                    done.set()

            await joined.wait()
            await consumer.run(handle)


async def main(server: str = SERVER) -> None:
    handled: Counter[str] = Counter()
    # The first job is sent when both workers have joined the group.
    joined, done = asyncio.Barrier(3), asyncio.Event()
    async with AsyncClient(server) as client:
        await client.ensure_topic("shop/jobs", partitions=4)
        workers = [
            asyncio.create_task(work(name, server, handled, joined, done))
            for name in ("ada", "bob")
        ]
        await joined.wait()
        async with client.producer("shop/jobs", background=True) as producer:
            for number in range(ORDERS):
                await producer.send(f"job {number}", partition=number % 4)
        await done.wait()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    print(f"{handled.total()} jobs done by {' and '.join(sorted(handled))}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
