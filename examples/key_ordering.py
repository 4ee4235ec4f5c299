"""Messages with the same key stay in order, however many partitions there are."""

import asyncio
import sys
from collections import defaultdict

import msgspec

from borzoi.client import AsyncClient

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


class Step(msgspec.Struct):
    customer: str
    number: int


async def main(server: str = SERVER) -> None:
    async with AsyncClient(server) as client:
        await client.ensure_topic("shop/steps", partitions=8)
        await client.purge_topic("shop/steps")
        async with client.producer("shop/steps", codec=Step, background=True) as producer:
            for number in range(100):
                for customer in ("ada", "bob", "eve"):
                    await producer.send(Step(customer, number), key=customer)

        seen: dict[str, list[int]] = defaultdict(list)
        async for message in client.consumer("shop/steps", codec=Step, follow=False):
            seen[message.value.customer].append(message.value.number)
        for customer, numbers in sorted(seen.items()):
            print(f"{customer}: {len(numbers)} steps, in order: {numbers == sorted(numbers)}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
