"""A busy published client: sends, reads and creates until it is stopped, whatever happens.

    server_load.py HOST:PORT SEED

Two producers, two readers and a creator, each with a connection of its own. A call is repeated
until it is answered, and what was answered is said on standard output, a line each:

    sent PARTITION BATCH COUNT    the batch was acknowledged
    read OFFSET TEXT...           messages of partition 0, by offset; TEXT is what they begin with
    next FIRST LAST               messages of partition 1, by the committed offset
    made NUMBER                   the stream made-NUMBER and its topic were created
    done REPEATED REPLACED        it was told to stop, by a line on standard input

Each message begins with ``partition/batch/index/count/size`` and is filled up to its size, so a
reader can tell what was sent from what was not.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import TypeVar

from apache_iggy import IggyClient, PollingStrategy, SendMessage

WHERE = ("load", "events")
PARTITIONS = 2

#: The client tries again soon, because a test waits for it.
IMPATIENT = "reconnection_interval=50ms&reestablish_after=0ms"

#: What a call ends with when it is not known whether it was carried out.
CONNECTION_LOST = {
    "CannotEstablishConnection",
    "Disconnected",
    "EmptyResponse",
    "NotConnected",
    "ShardCommunicationError",  # another shard died with the call in hand
    "TcpError",
    "Unauthenticated",  # two calls reconnected at once, and the login of the other is under way
}

#: How long a call may take before another client is connected, and how long it may take then.
CALL_SECONDS_MAX = 20.0
GRACE_SECONDS = 2.0

T = TypeVar("T")


class Connection:
    """A client, replaced by another one when a call of it does not end."""

    def __init__(self, load: "Load", client: IggyClient) -> None:
        self._load = load
        self._client = client

    async def insist(
        self, call: Callable[[IggyClient], Awaitable[T]], *, on_repeat: str = ""
    ) -> T | None:
        """Repeat until answered; the refusal `on_repeat` shows that an earlier try had worked."""
        while True:
            try:
                return await self._answered(call)
            except TimeoutError:
                self._load.replaced += 1
            except RuntimeError as fault:
                name = reason(fault)
                if name == on_repeat:
                    # The client repeats a call by itself as well, so any refusal may be a second.
                    return None
                if name not in CONNECTION_LOST:
                    raise
                self._load.repeated += 1
                await asyncio.sleep(0.01)

    async def _answered(self, call: Callable[[IggyClient], Awaitable[T]]) -> T:
        """The answer, or TimeoutError when the call does not end although the server works.

        After a hundred kills and more it happens that a call neither fails nor returns while the
        server answers every other client. It looks like a fault of the client's reconnecting, but
        that is not proven, so such calls are counted, and the test bounds them.
        """
        task = asyncio.ensure_future(call(self._client))
        if not (await asyncio.wait({task}, timeout=CALL_SECONDS_MAX))[0]:
            other = await self._load.connected()
            if not (await asyncio.wait({task}, timeout=GRACE_SECONDS))[0]:
                task.cancel()
                self._client = other
                raise TimeoutError
        return await task


class Load:
    def __init__(self, address: str, seed: str) -> None:
        self.address = address
        self.seed = seed
        self.stopping = False
        self.repeated = 0
        self.replaced = 0

    async def connected(self) -> IggyClient:
        """A client that is connected, as soon as there is a server."""
        address = f"iggy://iggy:iggy@{self.address}?{IMPATIENT}"
        client = IggyClient.from_connection_string(address)
        while True:
            try:
                await client.connect()
            except RuntimeError as fault:
                if reason(fault) not in CONNECTION_LOST:
                    raise
                await asyncio.sleep(0.05)
            else:
                return client

    async def produce(self, connection: Connection, partition: int) -> None:
        random = Random(f"{self.seed} {partition}")
        for batch in count():
            if self.stopping:
                return
            size = random.choice((1, 1, 2, 10, 40))
            messages = []
            for index in range(size):
                filled = random.choice((40, 40, 100, 1000, 9000))
                text = f"{partition}/{batch}/{index}/{size}/{filled} "
                messages.append(text.ljust(filled, "."))
            await connection.insist(
                lambda client, now=messages: client.send_messages(  # type: ignore[misc]
                    *WHERE, partition, [SendMessage(text) for text in now]
                )
            )
            say("sent", partition, batch, size)

    async def read(self, connection: Connection) -> None:
        offset = 0
        while not self.stopping:
            polled = await connection.insist(
                lambda client, now=offset: client.poll_messages(  # type: ignore[misc]
                    *WHERE, 0, PollingStrategy.Offset(now), 50, False
                )
            )
            if not polled:
                await asyncio.sleep(0.005)
                continue
            assert [message.offset() for message in polled] == [
                *range(offset, offset + len(polled))
            ]
            say("read", offset, *(message.payload().split(b" ")[0].decode() for message in polled))
            offset += len(polled)

    async def read_on(self, connection: Connection) -> None:
        while not self.stopping:
            polled = await connection.insist(
                lambda client: client.poll_messages(*WHERE, 1, PollingStrategy.Next(), 50, True)
            )
            if polled:
                say("next", polled[0].offset(), polled[-1].offset())
            await asyncio.sleep(0.005)

    async def make(self, connection: Connection) -> None:
        for number in count():
            if self.stopping:
                return
            name = f"made-{number}"
            await connection.insist(
                lambda client, now=name: client.create_stream(now),  # type: ignore[misc]
                on_repeat="StreamNameAlreadyExists",
            )
            await connection.insist(
                lambda client, now=name: client.create_topic(now, "inside", 1),  # type: ignore[misc]
                on_repeat="TopicNameAlreadyExists",
            )
            say("made", number)
            # Every partition costs each start its time, and there are many starts.
            await asyncio.sleep(0.25)

    async def run(self) -> None:
        client = await self.connected()
        await client.create_stream("load")
        await client.create_topic(*WHERE, PARTITIONS)
        # All of them before anything is said: then the server may be killed, and a client repeats
        # its calls, but not its first connection.
        connections = [Connection(self, await self.connected()) for _ in range(PARTITIONS + 3)]
        reader, other_reader, maker, *producers = connections
        async with asyncio.TaskGroup() as tasks:
            for partition, producer in enumerate(producers):
                tasks.create_task(self.produce(producer, partition))
            tasks.create_task(self.read(reader))
            tasks.create_task(self.read_on(other_reader))
            tasks.create_task(self.make(maker))
            await asyncio.to_thread(sys.stdin.readline)
            self.stopping = True
        say("done", self.repeated, self.replaced)


def reason(fault: RuntimeError) -> str:
    """The name of the error that the client gives back as a text."""
    return str(fault).partition("(")[0]


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    code = 0
    try:
        asyncio.run(Load(*sys.argv[1:]).run())
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    # The client's own threads outlive its objects and may abort an interpreter that winds down.
    os._exit(code)
