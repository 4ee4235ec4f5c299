"""Messages sent and polled, and the offsets up to which they were read, against a real server."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.transports import every_transport, with_sessions

from borzoi.client import NewMessage
from borzoi.model.errors import (
    ConsumerOffsetNotFound,
    InvalidFormat,
    InvalidMessagesCount,
    PartitionNotFound,
    PayloadTooBig,
    TopicNotFound,
)
from borzoi.records.batch import walk
from borzoi.records.message import Message, encode_messages
from borzoi.records.user_headers import HeaderKind, HeaderValue


@every_transport
async def test_what_was_sent_is_polled(client, topic: str) -> None:
    before = datetime.now(UTC)
    headers: dict[str, Any] = {"number": 5, "ratio": 0.5, "text": "ü", "flag": True, "raw": b"\0\1"}
    narrow = HeaderValue.of(7, HeaderKind.UINT8)
    await client.send_messages(
        topic,
        [b"bytes", "täxt", NewMessage(b"{}", {**headers, "narrow": narrow}, id=77)],
        partition=1,
    )
    polled = await client.poll_messages(topic, partition=1, start="first")
    assert (polled.partition, polled.current_offset, len(polled)) == (1, 2, 3)
    first, second, third = polled
    assert (first.payload, first.offset, first.headers) == (b"bytes", 0, {})
    assert second.text() == "täxt"
    assert third.json() == {}
    assert third.headers == {**headers, "narrow": 7}
    assert third.typed_headers[HeaderValue.of("narrow")] == narrow
    assert third.id == 77
    assert first.id > 0
    assert before <= third.origin_time <= datetime.now(UTC)
    assert polled[2] == third
    assert polled[2] is polled[2]


async def arrive_whole(client, topic: str, payloads: list[bytes]) -> None:
    await client.send_messages(topic, payloads, partition=0)
    polled = await client.poll_messages(topic, partition=0, start=0)
    assert [message.payload for message in polled] == payloads
    assert [message.offset for message in polled] == list(range(len(payloads)))


@every_transport
@pytest.mark.parametrize("size", [0, 1, 100, 1000])
async def test_batches_of_any_size_arrive_whole(client, topic: str, size: int) -> None:
    payloads = [number.to_bytes(4, "big") + bytes(size) for number in range(300)]
    await arrive_whole(client, topic, payloads)


@with_sessions
async def test_large_batches_arrive_whole(client, topic: str, transport: str) -> None:
    size = 7_000 if transport == "quic" else 70_000
    payloads = [number.to_bytes(4, "big") + bytes(size) for number in range(300)]
    await arrive_whole(client, topic, payloads)


@with_sessions
async def test_messages_of_different_sizes_arrive_whole(client, topic: str) -> None:
    payloads = [bytes([number % 251]) * number for number in range(500)]
    await client.send_messages(topic, payloads, partition=0)
    polled = await client.poll_messages(topic, partition=0, start=0, count=500)
    assert [message.payload for message in polled] == payloads


@every_transport
async def test_a_key_always_means_the_same_partition(client, topic: str) -> None:
    for _ in range(3):
        await client.send_messages(topic, ["a"], key="customer-7")
    counts = [
        len(await client.poll_messages(topic, partition=partition, start=0)) for partition in (0, 1)
    ]
    assert sorted(counts) == [0, 3]


@every_transport
async def test_without_a_partition_or_key_they_take_turns(client, topic: str) -> None:
    for _ in range(4):
        await client.send_messages(topic, ["a"])
    counts = [
        len(await client.poll_messages(topic, partition=partition, start=0)) for partition in (0, 1)
    ]
    assert counts == [2, 2]


@every_transport
async def test_polls_start_where_they_are_told(client, topic: str) -> None:
    await client.send_messages(topic, [str(number) for number in range(10)], partition=0)
    first = (await client.poll_messages(topic, partition=0, start="first", count=1))[0]
    assert first.text() == "0"
    last = await client.poll_messages(topic, partition=0, start="last", count=2)
    assert [message.text() for message in last] == ["8", "9"]
    from_four = await client.poll_messages(topic, partition=0, start=4, count=2)
    assert [message.text() for message in from_four] == ["4", "5"]
    since = await client.poll_messages(topic, partition=0, start=first.time)
    assert len(since) == 10
    assert not await client.poll_messages(topic, partition=0, start=10)


@every_transport
async def test_committed_offsets_are_gone_on_from(client, topic: str) -> None:
    await client.send_messages(topic, [str(number) for number in range(10)], partition=0)
    me: dict[str, Any] = {"partition": 0, "consumer": "reader"}
    assert await client.get_consumer_offset(topic, **me) is None
    polled = await client.poll_messages(topic, **me, count=4, commit=True)
    assert [message.text() for message in polled] == ["0", "1", "2", "3"]
    stored = await client.get_consumer_offset(topic, **me)
    assert (stored.stored_offset, stored.current_offset) == (3, 9)
    await client.store_consumer_offset(topic, 6, **me)
    assert (await client.poll_messages(topic, **me, count=1))[0].text() == "7"
    await client.delete_consumer_offset(topic, **me)
    assert (await client.poll_messages(topic, **me, count=1))[0].text() == "0"
    with pytest.raises(ConsumerOffsetNotFound):
        await client.delete_consumer_offset(topic, **me)


@with_sessions
async def test_a_group_is_polled_without_naming_a_partition(client, topic: str) -> None:
    await client.create_consumer_group(topic, "billing")
    await client.join_consumer_group(topic, "billing")
    await client.send_messages(topic, ["a"], partition=0)
    await client.send_messages(topic, ["b"], partition=1)
    found = set()
    for _ in range(2):
        polled = await client.poll_messages(topic, group="billing", commit=True)
        found |= {message.text() for message in polled}
    assert found == {"a", "b"}


@every_transport
async def test_a_raw_poll_gives_the_bytes_as_they_were_received(client, topic: str) -> None:
    await client.send_messages(topic, [bytes(1000)] * 200, partition=0)
    raw = await client.poll_raw(topic, partition=0, start=0, count=200)
    assert raw.messages_count == 200
    batch = walk(memoryview(raw.messages))
    assert batch.offsets().tolist() == list(range(200))
    again = await client.poll_raw(topic, partition=0, start=0, count=200)
    await client.poll_messages(topic, partition=0, start=0, count=200)
    assert bytes(again.messages) == bytes(raw.messages)


@every_transport
async def test_encoded_messages_are_sent_as_they_are(client, topic: str) -> None:
    indexes, messages = encode_messages([Message(b"a", id=7), Message(b"bc")])
    await client.send_raw(topic, 2, indexes, messages, partition=0)
    polled = await client.poll_messages(topic, partition=0, start=0)
    assert [message.payload for message in polled] == [b"a", b"bc"]
    assert polled[0].id == 7


@every_transport
async def test_flushing_is_answered(client, topic: str) -> None:
    await client.send_messages(topic, ["a"], partition=0)
    await client.flush_unsaved_buffer(topic, 0)


@every_transport
async def test_mistakes_are_told_by_their_class(client, topic: str) -> None:
    stream, _, _ = topic.partition("/")
    with pytest.raises(TopicNotFound):
        await client.send_messages(f"{stream}/nothing", ["a"])
    with pytest.raises(PartitionNotFound):
        await client.poll_messages(topic, partition=7)
    with pytest.raises(InvalidMessagesCount):
        await client.send_messages(topic, [])
    with pytest.raises(InvalidFormat, match="not dict"):
        await client.send_messages(topic, [{}])
    with pytest.raises(InvalidFormat, match="not both"):
        await client.send_messages(topic, ["a"], partition=0, key="a")
    with pytest.raises(PayloadTooBig, match="send it in pieces"):
        await client.send_messages(topic, [bytes(64_000_001)])
    assert not await client.poll_messages(topic, partition=0, start=0)
