"""What people do with the published Python client, each scenario ending where its claim was seen.

A program of its own, without borzoi and without pytest, because every version of the client runs
it in an environment of its own:

    scenarios.py NAME [SCHEME://]HOST:PORT [TOKEN | CERTIFICATE_FILE]

It exits with 0 when the scenario held, and with a traceback when it did not.
"""

import asyncio
import datetime
import json
import os
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from apache_iggy import (
    AutoCommit,
    AutoCommitAfter,
    AutoCommitWhen,
    IggyClient,
    IggyConsumer,
    PollingStrategy,
    ReceiveMessage,
    SendMessage,
)

PATIENCE_SECONDS = 60.0

#: The client's own defaults wait seconds before a second try. It does not ping here: two calls that
#: reconnect at once take the connection from each other, and a ping is a call.
IMPATIENT = "reconnection_interval=50ms&reestablish_after=0ms&heartbeat_interval=1h"


async def logged_in(address: str) -> IggyClient:
    """A client over TCP, or over what an address with a scheme says, such as ``iggy+ws://…``."""
    scheme, separator, place = address.rpartition("://")
    if separator:
        client = IggyClient.from_connection_string(f"{scheme}://iggy:iggy@{place}")
    else:
        client = IggyClient(address)
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def refused(attempt: Awaitable[object]) -> str:
    """The name of the error that the attempt must end with."""
    try:
        await attempt
    except RuntimeError as fault:
        return str(fault).partition("(")[0]
    raise AssertionError("it was not refused")


async def topic_of(client: IggyClient, stream: str, partitions: int = 1) -> tuple[str, str]:
    await client.create_stream(stream)
    await client.create_topic(stream, "events", partitions_count=partitions)
    return stream, "events"


def numbered(numbers: range) -> list[SendMessage]:
    return [SendMessage(f"message {number}") for number in numbers]


def payloads(messages: Sequence[ReceiveMessage]) -> list[bytes]:
    return [message.payload() for message in messages]


def offsets(messages: Sequence[ReceiveMessage]) -> list[int]:
    return [message.offset() for message in messages]


# ---- who is there -------------------------------------------------------------------------------


async def login(address: str) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.ping()
    assert await refused(client.create_stream("too-early")) == "Unauthenticated"
    assert await refused(client.login_user("iggy", "wrong")) == "InvalidCredentials"
    await client.login_user("iggy", "iggy")
    assert await client.get_stream("too-early") is None

    by_string = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}")
    await by_string.connect()
    assert await by_string.get_stream("too-early") is None

    unknown = IggyClient.from_connection_string(f"iggy+tcp://nobody:wrong@{address}")
    assert await refused(unknown.connect()) == "InvalidCredentials"


async def token_login(address: str, token: str) -> None:
    client = IggyClient.from_connection_string(f"iggy://{token}@{address}")
    await client.connect()
    assert await client.get_stream("absent") is None


async def streams(address: str) -> None:
    client = await logged_in(address)
    await client.create_stream("first of two")
    await client.create_stream("второй поток")
    first = await client.get_stream("first of two")
    second = await client.get_stream("второй поток")
    assert first is not None
    assert second is not None
    assert first.id != second.id
    by_id = await client.get_stream(second.id)
    assert by_id is not None
    assert (by_id.name, by_id.topics_count, by_id.messages_count) == ("второй поток", 0, 0)
    assert await refused(client.create_stream("first of two")) == "StreamNameAlreadyExists"
    assert await client.get_stream("absent") is None


async def topics(address: str) -> None:
    client = await logged_in(address)
    await client.create_stream("topics")
    await client.create_topic(
        "topics",
        "kept for an hour",
        partitions_count=3,
        compression_algorithm="gzip",
        replication_factor=1,
        message_expiry=datetime.timedelta(hours=1),
        max_topic_size=2 * 1024**3,
    )
    await client.create_topic("topics", "without partitions", partitions_count=0)
    topic = await client.get_topic("topics", "kept for an hour")
    assert topic is not None
    assert (topic.name, topic.partitions_count, topic.messages_count) == ("kept for an hour", 3, 0)
    by_id = await client.get_topic("topics", topic.id)
    assert by_id is not None
    assert by_id.name == topic.name
    empty = await client.get_topic("topics", "without partitions")
    assert empty is not None
    assert empty.partitions_count == 0
    stream = await client.get_stream("topics")
    assert stream is not None
    assert stream.topics_count == 2
    again = client.create_topic("topics", "without partitions", partitions_count=1)
    assert await refused(again) == "TopicNameAlreadyExists"
    assert await client.get_topic("topics", "absent") is None


# ---- messages -----------------------------------------------------------------------------------


async def sending(address: str) -> None:
    client = await logged_in(address)
    where = await topic_of(client, "sending", partitions=2)
    blob = bytes(range(256)) * 4096
    await client.send_messages(
        *where, 1, [SendMessage(blob), SendMessage("text"), SendMessage("é")]
    )
    await client.send_messages(*where, 0, numbered(range(1000)))

    polled = await client.poll_messages(*where, 1, PollingStrategy.First(), 10, False)
    assert payloads(polled) == [blob, b"text", "é".encode()]
    assert [message.length() for message in polled] == [len(blob), 4, 2]
    assert [message.partition_id() for message in polled] == [1, 1, 1]
    assert len({message.id() for message in polled}) == 3
    many = await client.poll_messages(*where, 0, PollingStrategy.First(), 1000, False)
    assert payloads(many) == [b"message %d" % number for number in range(1000)]
    topic = await client.get_topic(*where)
    assert topic is not None
    assert topic.messages_count == 1003

    no_partition = client.send_messages(*where, 2, numbered(range(1)))
    assert await refused(no_partition) == "PartitionNotFound"
    no_topic = client.send_messages("sending", "absent", 0, numbered(range(1)))
    assert await refused(no_topic) == "TopicIdNotFound"


async def calls(address: str) -> None:
    """The same over HTTP, whose client knows errors by their HTTP status only."""
    client = await logged_in(address)
    assert await client.get_stream("calls") is None
    where = await topic_of(client, "calls", partitions=2)
    assert await refused(client.create_stream("calls")) == "HttpResponseError"
    stream = await client.get_stream("calls")
    assert stream is not None
    assert (stream.name, stream.topics_count) == ("calls", 1)
    blob = bytes(range(256)) * 2048
    await client.send_messages(*where, 1, [SendMessage(blob), SendMessage("é")])
    await client.send_messages(*where, 0, numbered(range(1000)))
    polled = await client.poll_messages(*where, 1, PollingStrategy.First(), 10, False)
    assert payloads(polled) == [blob, "é".encode()]
    many = await client.poll_messages(*where, 0, PollingStrategy.First(), 1000, False)
    assert payloads(many) == [b"message %d" % number for number in range(1000)]
    topic = await client.get_topic(*where)
    assert topic is not None
    assert (topic.messages_count, topic.partitions_count) == (1002, 2)
    no_topic = client.send_messages("calls", "absent", 0, numbered(range(1)))
    assert await refused(no_topic) == "ResourceNotFound"


async def polling(address: str) -> None:
    client = await logged_in(address)
    where = await topic_of(client, "polling")

    async def poll(strategy: PollingStrategy, count: int, commit: bool = False) -> list[int]:
        return offsets(await client.poll_messages(*where, 0, strategy, count, commit))

    assert await poll(PollingStrategy.First(), 10) == []
    for start in range(0, 10, 2):
        await client.send_messages(*where, 0, numbered(range(start, start + 2)))
    everything = await client.poll_messages(*where, 0, PollingStrategy.First(), 100, False)
    assert offsets(everything) == list(range(10))

    assert await poll(PollingStrategy.First(), 3) == [0, 1, 2]
    assert await poll(PollingStrategy.Last(), 3) == [7, 8, 9]
    assert await poll(PollingStrategy.Offset(4), 3) == [4, 5, 6]
    assert await poll(PollingStrategy.Offset(8), 100) == [8, 9]
    assert await poll(PollingStrategy.Offset(10), 100) == []
    for message in everything:
        moment = message.timestamp()
        late = [other.offset() for other in everything if other.timestamp() >= moment]
        assert await poll(PollingStrategy.Timestamp(moment), 100) == late
    assert await poll(PollingStrategy.Timestamp(everything[-1].timestamp() + 1), 100) == []

    # Nothing was committed so far, so Next stays where it is until something is.
    assert await poll(PollingStrategy.Next(), 4) == [0, 1, 2, 3]
    assert await poll(PollingStrategy.Next(), 4, commit=True) == [0, 1, 2, 3]
    assert await poll(PollingStrategy.Next(), 4, commit=True) == [4, 5, 6, 7]
    assert await poll(PollingStrategy.Next(), 4, commit=True) == [8, 9]
    assert await poll(PollingStrategy.Next(), 4, commit=True) == []


# ---- consumer groups ----------------------------------------------------------------------------


async def member_of(
    client: IggyClient, where: tuple[str, str], name: str, commit: AutoCommit
) -> IggyConsumer:
    return await client.consumer_group(
        name,
        *where,
        polling_strategy=PollingStrategy.Next(),
        batch_length=10,
        auto_commit=commit,
        poll_interval=datetime.timedelta(milliseconds=10),
    )


async def take(messages: AsyncIterator[ReceiveMessage], count: int) -> list[ReceiveMessage]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await anext(messages) for _ in range(count)]


async def committed_offsets(address: str) -> None:
    where = await topic_of(await logged_in(address), "offsets")
    client = await logged_in(address)
    await client.send_messages(*where, 0, numbered(range(10)))

    first = await member_of(client, where, "readers", AutoCommit.Disabled())
    await first.store_offset(4, 0)
    assert offsets(await take(first.iter_messages(), 5)) == [5, 6, 7, 8, 9]
    assert first.get_last_consumed_offset(0) == 9
    assert await refused(first.store_offset(10, 0)) == "InvalidOffset"

    await first.delete_offset(0)
    assert await refused(first.delete_offset(0)) == "ConsumerOffsetNotFound"
    again = await member_of(client, where, "readers", AutoCommit.Disabled())
    assert offsets(await take(again.iter_messages(), 10)) == list(range(10))

    # What one consumer commits while it polls, the next of the group need not read again.
    polled = AutoCommit.When(AutoCommitWhen.PollingMessages())
    third = await member_of(client, where, "committers", polled)
    assert offsets(await take(third.iter_messages(), 10)) == list(range(10))
    await client.send_messages(*where, 0, numbered(range(10, 12)))
    fourth = await member_of(client, where, "committers", polled)
    assert offsets(await take(fourth.iter_messages(), 2)) == [10, 11]


async def consuming(address: str) -> None:
    """The loop with a callback, which commits after each message and ends on request."""
    client = await logged_in(address)
    where = await topic_of(client, "consuming")
    await client.send_messages(*where, 0, numbered(range(25)))
    commit = AutoCommit.After(AutoCommitAfter.ConsumingEachMessage())
    consumer = await member_of(client, where, "callbacks", commit)
    seen: list[bytes] = []
    enough = asyncio.Event()

    async def note(message: ReceiveMessage) -> None:
        seen.append(message.payload())
        if len(seen) == 25:
            enough.set()

    async with asyncio.timeout(PATIENCE_SECONDS):
        await consumer.consume_messages(note, enough)
    assert seen == [b"message %d" % number for number in range(25)]


async def groups(address: str) -> None:
    """Three members share three partitions; when one is gone, two read all of them."""
    producer = await logged_in(address)
    where = await topic_of(producer, "groups", partitions=3)
    received: asyncio.Queue[tuple[str, int, str]] = asyncio.Queue()
    commit = AutoCommit.When(AutoCommitWhen.PollingMessages())

    async def consume(name: str) -> None:
        member = await member_of(await logged_in(address), where, "group", commit)
        joined.release()
        await start.wait()
        async for message in member.iter_messages():
            text = message.payload().decode()
            received.put_nowait((name, message.partition_id(), text))

    joined, start = asyncio.Semaphore(0), asyncio.Event()
    tasks = [asyncio.create_task(consume(name)) for name in ("a", "b")]
    # The third member lives in a process of its own, so that it can leave as members do: suddenly.
    third = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "member", address,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert third.stdin is not None
    assert third.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in tasks:
            await joined.acquire()
        assert await third.stdout.readline() == b'"joined"\n'
    relay = asyncio.create_task(forward(third.stdout, received))
    start.set()
    third.stdin.write(b"start\n")

    owners = await read_everywhere(producer, where, received, "before")
    assert len(set(owners.values())) == 3, owners
    third.kill()
    await asyncio.gather(third.wait(), relay)
    owners = await read_everywhere(producer, where, received, "after")
    assert set(owners.values()) == {"a", "b"}, owners
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def read_everywhere(
    producer: IggyClient,
    where: tuple[str, str],
    received: asyncio.Queue[tuple[str, int, str]],
    when: str,
) -> dict[int, str]:
    """Send to each partition and wait until all of it was read once; who read which."""
    expected = set()
    for partition in range(3):
        texts = [f"{when} {partition} {number}" for number in range(20)]
        await producer.send_messages(*where, partition, [SendMessage(text) for text in texts])
        expected |= {(partition, text) for text in texts}
    owners: dict[int, str] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while expected:
            name, partition, text = await received.get()
            expected.remove((partition, text))
            owners[partition] = name
    return owners


async def forward(
    lines: asyncio.StreamReader, received: asyncio.Queue[tuple[str, int, str]]
) -> None:
    async for line in lines:
        partition, text = json.loads(line)
        received.put_nowait(("c", partition, text))


async def member(address: str) -> None:
    """The third member of `groups`: says what it reads, until it is killed."""
    commit = AutoCommit.When(AutoCommitWhen.PollingMessages())
    consumer = await member_of(await logged_in(address), ("groups", "events"), "group", commit)
    print(json.dumps("joined"), flush=True)
    sys.stdin.readline()
    async for message in consumer.iter_messages():
        print(json.dumps([message.partition_id(), message.payload().decode()]), flush=True)


# ---- the connection itself ----------------------------------------------------------------------


async def tls(address: str, certificate_file: str) -> None:
    options = f"tls=true&tls_domain=localhost&tls_ca_file={certificate_file}"
    client = IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{address}?{options}")
    await client.connect()
    where = await topic_of(client, "tls")
    blob = bytes(range(256)) * 8192
    await client.send_messages(*where, 0, [SendMessage("secret"), SendMessage(blob)])
    polled = await client.poll_messages(*where, 0, PollingStrategy.First(), 10, True)
    assert payloads(polled) == [b"secret", blob]
    reader = await member_of(client, where, "readers", AutoCommit.Disabled())
    assert offsets(await take(reader.iter_messages(), 2)) == [0, 1]


async def reconnecting(address: str) -> None:
    """Says "ready", expects a new server on the same port when a line comes, and goes on."""
    client = IggyClient.from_connection_string(f"iggy://iggy:iggy@{address}?{IMPATIENT}")
    await client.connect()
    where = await topic_of(client, "reconnecting")
    await client.send_messages(*where, 0, numbered(range(5)))
    group = await member_of(client, where, "readers", AutoCommit.Disabled())
    reading = group.iter_messages()
    assert offsets(await take(reading, 5)) == [0, 1, 2, 3, 4]
    await group.store_offset(4, 0)
    assert offsets(
        await client.poll_messages(*where, 0, PollingStrategy.Next(), 3, True)
    ) == [0, 1, 2]  # fmt: skip

    print("ready", flush=True)
    sys.stdin.readline()

    async with asyncio.timeout(PATIENCE_SECONDS):
        await client.send_messages(*where, 0, numbered(range(5, 8)))
        polled = await client.poll_messages(*where, 0, PollingStrategy.Next(), 100, True)
    # The offset of the consumer, the messages, and the login: all as before.
    assert offsets(polled) == [3, 4, 5, 6, 7]
    assert payloads(polled)[0] == b"message 3"
    # The group's reader joins again by itself and goes on after what it has read.
    assert offsets(await take(reading, 3)) == [5, 6, 7]


SCENARIOS: dict[str, Callable[..., Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        login, token_login, streams, topics, sending, calls, polling, committed_offsets,
        consuming, groups, member, tls, reconnecting,
    )
}  # fmt: skip


def main() -> int:
    _, name, *arguments = sys.argv
    try:
        asyncio.run(SCENARIOS[name](*arguments))  # type: ignore[arg-type]
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The client's own threads outlive its objects and may abort an interpreter that winds down.
    os._exit(code)
