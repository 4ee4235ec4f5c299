"""Producers, direct and in the background, against a real server."""

import threading

import msgspec
import pytest
from tests.support.scripted_server import SILENCE, Asked, hanging_up_once, ok, scripted

from borzoi.client import AsyncClient
from borzoi.client.codecs import JSON, TEXT
from borzoi.model.errors import (
    BufferFull,
    InvalidFormat,
    InvalidHeaderValue,
    PartitionNotFound,
    PayloadTooBig,
    ProducerClosed,
    RequestTimeout,
    TopicNotFound,
)
from borzoi.model.partitioning import partition_for_key
from borzoi.protocol.codes import Code


class Order(msgspec.Struct):
    id: int
    item: str = "tea"


async def texts(client, topic: str, partition: int) -> list[str]:
    polled = await client.poll_messages(topic, partition=partition, start=0, count=100_000)
    return [message.text() for message in polled]


async def test_direct_sends_are_stored_when_they_return(client, topic: str) -> None:
    async with client.producer(topic) as producer:
        outcome = await producer.send(b"a", partition=0, headers={"k": 1}, id=7)
        assert outcome.is_known
        await outcome.wait()
        (message,) = await client.poll_messages(topic, partition=0, start=0)
        assert (message.payload, message.headers, message.id) == (b"a", {"k": 1}, 7)
        await producer.send("text is taken too", partition=0)
        await producer.send_batch([b"b", b"c"], partition=0)
    assert await texts(client, topic, 0) == ["a", "text is taken too", "b", "c"]


async def test_in_the_background_messages_go_together_and_in_order(client, topic: str) -> None:
    expected: list[list[str]] = [[], []]
    async with client.producer(topic, background=True, batch_messages=100) as producer:
        for number in range(2500):
            key = f"key {number % 7}"
            await producer.send(str(number).encode(), key=key)
            expected[partition_for_key(key.encode(), 2)].append(str(number))
    assert [await texts(client, topic, partition) for partition in (0, 1)] == expected


async def test_what_send_returns_can_be_waited_for(client, topic: str) -> None:
    async with client.producer(topic, background=True, linger=0) as producer:
        outcomes = [await producer.send(b"x", partition=0) for _ in range(10)]
        for outcome in outcomes:
            await outcome.wait()
            assert outcome.partition == 0
        assert len(await texts(client, topic, 0)) == 10
        by_key = await producer.send(b"x", key="customer-7")
        assert by_key.partition == partition_for_key(b"customer-7", 2)
        assert (await producer.send(b"x")).partition is None
    async with client.producer(topic) as producer:
        assert (await producer.send(b"x", partition=1)).partition == 1


async def test_a_flush_waits_for_everything_and_not_for_the_linger(client, topic: str) -> None:
    async with client.producer(topic, background=True, linger=3600) as producer:
        for number in range(10):
            await producer.send(str(number).encode(), partition=number % 2)
            await producer.send(b"anywhere")
        await producer.flush()
        stored = [len(await texts(client, topic, partition)) for partition in (0, 1)]
        assert sum(stored) == 20
        await producer.send_batch([b"after"], partition=0)
        assert (await texts(client, topic, 0))[-1] == "after"


async def test_values_are_encoded(client, topic: str) -> None:
    async with client.producer(topic, codec=Order) as producer:
        await producer.send(Order(1), partition=0)
    async with client.producer(topic, codec=JSON) as producer:
        await producer.send({"id": 2}, partition=0)
    async with client.producer(topic, codec=TEXT) as producer:
        await producer.send("three", partition=0)
    assert await texts(client, topic, 0) == ['{"id":1,"item":"tea"}', '{"id":2}', "three"]


async def test_a_fault_of_one_message_is_told_before_it_is_among_others(client, topic: str) -> None:
    async with client.producer(topic, background=True) as producer:
        await producer.send(b"good", partition=0)
        with pytest.raises(PayloadTooBig):
            await producer.send(bytes(64_000_001), partition=0)
        with pytest.raises(InvalidHeaderValue):
            await producer.send(b"bad", partition=0, headers={"k": ""})
        with pytest.raises(InvalidFormat):
            await producer.send(b"bad", partition=-1)
        changing = bytearray(b"as it was")
        await producer.send(changing, partition=0)
        changing[:] = b"different"
    assert await texts(client, topic, 0) == ["good", "as it was"]


async def test_faults_in_the_background_are_told_by_the_outcome_and_the_flush(
    client, topic: str
) -> None:
    async with client.producer(topic, background=True, linger=0) as producer:
        outcome = await producer.send(b"x", partition=9)
        with pytest.raises(PartitionNotFound):
            await outcome.wait()
        with pytest.raises(PartitionNotFound):
            await producer.flush()
        await producer.flush()
    with pytest.raises(TopicNotFound):
        async with client.producer(f"{topic}-not", background=True) as producer:
            await producer.send(b"x")
    with pytest.raises(TopicNotFound):
        async with client.producer(f"{topic}-not", background=True) as producer:
            await producer.send(b"x", key="k")


async def test_a_closed_producer_says_so(client, topic: str) -> None:
    producer = client.producer(topic)
    await producer.close()
    await producer.close()
    with pytest.raises(ProducerClosed) as caught:
        await producer.send(b"x")
    assert caught.value.code == 4057
    with pytest.raises(ProducerClosed):
        await producer.send_batch([b"x"])


@pytest.mark.parametrize(
    "wrong",
    [{"when_full": "panic"}, {"linger": -1}, {"batch_messages": 0}, {"codec": object()}],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_wrong_options_are_refused(client, wrong: dict) -> None:
    with pytest.raises(InvalidFormat):
        client.producer("s/t", **wrong)


# ---- a server that does not take them -----------------------------------------------------------

QUIET = "?heartbeat_interval=0"


def deaf(asked: Asked) -> bytes | None:
    return SILENCE if asked.code == Code.SEND_MESSAGES else ok(asked)


async def test_without_room_a_message_is_refused_when_told_so() -> None:
    with scripted(deaf) as server:
        async with AsyncClient(server.url + QUIET, timeout=0.1) as client:
            producer = client.producer(
                "s/t", background=True, buffer_bytes=1000, when_full="fail", linger=0
            )
            await producer.send(bytes(800))
            with pytest.raises(BufferFull) as caught:
                await producer.send(bytes(800))
            assert caught.value.code == 4053
            with pytest.raises(RequestTimeout):
                await producer.close()


async def test_without_room_a_message_waits_for_it() -> None:
    release = threading.Event()

    def slow(asked: Asked) -> bytes:
        if asked.code == Code.SEND_MESSAGES:
            release.wait(60)
        return ok(asked)

    with scripted(slow) as server:
        async with AsyncClient(server.url + QUIET) as client:
            async with client.producer(
                "s/t", background=True, buffer_bytes=1000, linger=0
            ) as producer:
                await producer.send(bytes(800))
                timer = threading.Timer(0.05, release.set)
                timer.start()
                await producer.send(bytes(800))
                assert release.is_set()
                timer.join()
        assert server.codes.count(Code.SEND_MESSAGES) == 2


async def test_without_room_a_message_is_dropped_when_told_so() -> None:
    with scripted(deaf) as server:
        async with AsyncClient(server.url + QUIET, timeout=0.05) as client:
            producer = client.producer("s/t", background=True, buffer_bytes=1000, when_full="drop")
            await producer.send(bytes(800))
            dropped = await producer.send(bytes(800))
            assert producer.dropped == 1
            with pytest.raises(BufferFull):
                await dropped.wait()
            with pytest.raises(RequestTimeout):
                await producer.close()


async def test_a_batch_is_sent_again_with_the_same_ids() -> None:
    with scripted(hanging_up_once(Code.SEND_MESSAGES)) as server:
        async with AsyncClient(server.url + QUIET) as client:
            async with client.producer("s/t", background=True) as producer:
                for _ in range(100):
                    await producer.send(b"x", partition=0)
        sends = [asked.payload for asked in server.asked if asked.code == Code.SEND_MESSAGES]
        assert len(sends) == 2
        assert sends[0] == sends[1]
