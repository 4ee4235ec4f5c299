"""A producer and a consumer.

Run it twice: the consumer continues after the last message it committed.
"""

import asyncio
import os
import sys

from apache_iggy import IggyClient, PollingStrategy, SendMessage

STREAM, TOPIC, PARTITION = "getting-started", "greetings", 0


async def connected(address: str) -> IggyClient:
    client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def produce(client: IggyClient) -> None:
    if await client.get_stream(STREAM) is None:
        await client.create_stream(STREAM)
    if await client.get_topic(STREAM, TOPIC) is None:
        await client.create_topic(STREAM, TOPIC, partitions_count=1)
    # Messages that are sent together are stored together, and cost one round trip.
    messages = [SendMessage(f"hello {number}") for number in range(10)]
    await client.send_messages(STREAM, TOPIC, PARTITION, messages)
    print(f"sent {len(messages)} messages")


async def consume(client: IggyClient) -> None:
    while True:
        # "Next" is what follows the offset that the server keeps for us; the last argument lets
        # it keep the new one as soon as it has handed the messages out.
        polled = await client.poll_messages(
            STREAM, TOPIC, PARTITION, PollingStrategy.Next(), 4, True
        )
        if not polled:
            return
        for message in polled:
            print(f"offset {message.offset()}: {message.payload().decode()}")


async def main(address: str = "127.0.0.1:8090") -> None:
    client = await connected(address)
    await produce(client)
    await consume(client)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    # The client's own threads may abort an interpreter that winds down, so it does not.
    sys.stdout.flush()
    os._exit(0)
