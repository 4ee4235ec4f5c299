"""Sends and polls of the published Python client; prints requests a second, one row a line.

published_client.py HOST:PORT REQUESTS
"""

import asyncio
import os
import sys
import time

from apache_iggy import IggyClient, PollingStrategy, SendMessage

MESSAGES = 1000


async def main(address: str, requests: int) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    for size in (1000, 100):
        messages = [SendMessage(b"x" * size) for _ in range(MESSAGES)]
        begun = time.perf_counter()
        for _ in range(requests):
            # Made from bytes each time, as a program that has new messages would.
            messages = [SendMessage(b"x" * size) for _ in range(MESSAGES)]
            await client.send_messages("bench", f"async-{size}", 0, messages)
        print("send", size, requests / (time.perf_counter() - begun))
        begun = time.perf_counter()
        for number in range(requests):
            polled = await client.poll_messages(
                "bench",
                f"stored-{size}",
                0,
                PollingStrategy.Offset(number * MESSAGES),
                MESSAGES,
                False,
            )
            total = 0
            for message in polled:
                total += len(message.payload())
            assert total == MESSAGES * size
        print("poll", size, requests / (time.perf_counter() - begun), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    # The client's own threads may abort an interpreter that winds down, so it does not.
    sys.stdout.flush()
    os._exit(0)
