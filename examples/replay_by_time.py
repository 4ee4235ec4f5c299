"""Read again what was stored since a moment."""

import asyncio
import sys
from datetime import UTC, datetime

from borzoi.client import AsyncClient

SERVER = "borzoi://iggy:iggy@127.0.0.1:8090"


async def main(server: str = SERVER) -> None:
    async with AsyncClient(server) as client:
        await client.ensure_topic("shop/prices")
        await client.send_messages("shop/prices", ["tea 3.50", "milk 1.20"], partition=0)
        await asyncio.sleep(0.01)
        noon = datetime.now(UTC)
        await client.send_messages("shop/prices", ["tea 3.60"], partition=0)

        async for message in client.consumer("shop/prices", begin=noon, follow=False):
            print(f"since then: {message.text()}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
