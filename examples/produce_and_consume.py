"""A producer and a consumer, on an event loop."""

import asyncio
import sys

from borzoi.client import AsyncClient

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


async def main(server: str = SERVER) -> None:
    async with AsyncClient(server) as client:
        await client.ensure_topic("shop/orders")

        async with client.producer("shop/orders") as producer:
            for number in range(3):
                await producer.send(f"order {number}", headers={"source": "example"})

        # The server keeps how far "printer" has read: run this twice and nothing comes twice.
        async with client.consumer("shop/orders", name="printer", follow=False) as consumer:
            async for message in consumer:
                print(f"{message.offset}: {message.text()} {message.headers}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
