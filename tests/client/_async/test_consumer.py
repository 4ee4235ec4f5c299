"""Consumers, alone and in groups, against a real server."""

from datetime import timedelta

import msgspec
import pytest

from borzoi.client import AsyncClient
from borzoi.client.codecs import JSON, UndecodableMessage
from borzoi.model.errors import ClientClosed, InvalidFormat, TopicNotFound


class Order(msgspec.Struct):
    id: int


async def fill(client, topic: str, count: int = 10, partition: int = 0) -> None:
    await client.send_messages(
        topic, [f"{partition}:{number}" for number in range(count)], partition=partition
    )


async def read(consumer) -> list[str]:
    found = []
    async for message in consumer:
        found.append(message.text())
    return found


async def test_all_partitions_are_read_in_order(client, topic: str) -> None:
    await fill(client, topic, 10, 0)
    await fill(client, topic, 25, 1)
    async with client.consumer(topic, follow=False, batch_messages=4) as consumer:
        found = await read(consumer)
        assert consumer.assignment == (0, 1)
    for partition, count in ((0, 10), (1, 25)):
        mine = [text for text in found if text.startswith(f"{partition}:")]
        assert mine == [f"{partition}:{number}" for number in range(count)]


async def test_some_partitions_are_read(client, topic: str) -> None:
    await fill(client, topic, 3, 0)
    await fill(client, topic, 3, 1)
    assert await read(client.consumer(topic, partitions=[1], follow=False)) == ["1:0", "1:1", "1:2"]


async def test_where_to_begin(client, topic: str) -> None:
    await fill(client, topic, 5)
    first = (await client.poll_messages(topic, partition=0, start=0))[0]

    async def found(begin) -> list[str]:
        return await read(client.consumer(topic, partitions=[0], begin=begin, follow=False))

    assert len(await found("earliest")) == 5
    assert await found("latest") == []
    assert await found(3) == ["0:3", "0:4"]
    assert len(await found(first.time)) == 5
    assert await found(first.time + timedelta(days=1)) == []
    async with client.consumer(topic, begin="latest", follow=False) as consumer:
        await fill(client, topic, 2)
        assert len(await read(consumer)) == 2


async def test_new_messages_are_waited_for(client, topic: str) -> None:
    async with client.consumer(topic, partitions=[0], poll_interval=0.01) as consumer:
        await fill(client, topic, 3)
        for number in range(3):
            message = await consumer.__anext__()
            assert message.text() == f"0:{number}"
        await fill(client, topic, 1)
        assert (await consumer.__anext__()).offset == 3


async def stored(client, topic: str, partition: int = 0, **who) -> int | None:
    offset = await client.get_consumer_offset(topic, partition=partition, **who)
    return None if offset is None else offset.stored_offset


@pytest.mark.parametrize(
    ("commit", "after_three", "after_four"),
    [("each", 1, 2), ("batch", None, 2), ("manual", None, None)],
)
async def test_offsets_are_stored_as_told(
    client, topic: str, commit: str, after_three: int | None, after_four: int | None
) -> None:
    await fill(client, topic)
    me = {"partitions": [0], "name": "reader", "batch_messages": 3}
    async with client.consumer(topic, commit=commit, **me) as consumer:
        for _ in range(3):
            await consumer.__anext__()
        assert await stored(client, topic, consumer="reader") == after_three
        await consumer.__anext__()
        assert await stored(client, topic, consumer="reader") == after_four
    again = client.consumer(topic, commit=commit, follow=False, **me)
    rest = await read(again)
    assert rest[0] == ("0:0" if after_four is None else "0:3")


async def test_offsets_are_stored_at_intervals(client, topic: str) -> None:
    await fill(client, topic)
    me = {"partitions": [0], "name": "reader", "commit": "interval"}
    async with client.consumer(topic, commit_interval=3600, **me) as consumer:
        for _ in range(5):
            await consumer.__anext__()
        assert await stored(client, topic, consumer="reader") is None
    assert await stored(client, topic, consumer="reader") == 3
    async with client.consumer(topic, commit_interval=0, **me) as consumer:
        await consumer.__anext__()
        await consumer.__anext__()
        assert await stored(client, topic, consumer="reader") == 4


async def test_offsets_are_stored_by_hand(client, topic: str) -> None:
    await fill(client, topic)
    me = {"partitions": [0], "name": "reader", "commit": "manual"}
    async with client.consumer(topic, **me) as consumer:
        first = await consumer.__anext__()
        await consumer.__anext__()
        await consumer.commit(first)
        assert await stored(client, topic, consumer="reader") == 0
        await consumer.commit()
        assert await stored(client, topic, consumer="reader") == 1
    with pytest.raises(InvalidFormat):
        await client.consumer(topic).commit()


async def test_a_message_whose_handler_failed_comes_again(client, topic: str) -> None:
    await fill(client, topic, 5)
    seen: list[str] = []

    def handle(message) -> None:
        seen.append(message.text())
        if seen == ["0:0", "0:1", "0:2"]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with client.consumer(topic, name="h", commit="each", follow=False) as consumer:
            await consumer.run(handle)
    assert await stored(client, topic, consumer="h") == 1
    async with client.consumer(topic, name="h", commit="each", follow=False) as consumer:
        await consumer.run(handle)
    assert seen == ["0:0", "0:1", "0:2", "0:2", "0:3", "0:4"]
    assert await stored(client, topic, consumer="h") == 4


async def test_batches(client, topic: str) -> None:
    await fill(client, topic, 5, 0)
    await fill(client, topic, 5, 1)
    async with client.consumer(topic, name="b", follow=False, batch_messages=3) as consumer:
        sizes = []
        while batch := await consumer.batch():
            assert len({message.partition for message in batch}) == 1
            sizes.append(len(batch))
        assert sorted(sizes) == [2, 2, 3, 3]
    assert await stored(client, topic, 1, consumer="b") == 4


async def test_seeking_and_pausing(client, topic: str) -> None:
    await fill(client, topic, 5, 0)
    await fill(client, topic, 5, 1)
    async with client.consumer(topic, follow=False) as consumer:
        consumer.pause(1)
        assert len(await read(consumer)) == 5
        await consumer.seek(0, 3)
        assert consumer.position(0) == 3
        assert await read(consumer) == ["0:3", "0:4"]
        await consumer.seek(0, "earliest")
        assert (await consumer.__anext__()).text() == "0:0"
        assert consumer.position(0) == 1
        consumer.pause(0)
        consumer.resume(1)
        assert [text[:2] for text in await read(consumer)] == ["1:"] * 5
        consumer.resume()
        assert await read(consumer) == ["0:1", "0:2", "0:3", "0:4"]
        with pytest.raises(InvalidFormat, match="partition 7 is not one of"):
            await consumer.seek(7, 0)
        assert consumer.position(7) is None


async def test_values_are_decoded_and_one_that_is_none_is_told(client, topic: str) -> None:
    payloads = ['{"id":1}', "garbage", '{"id":"x"}', '{"id":2}']
    await client.send_messages(topic, payloads, partition=0)
    async with client.consumer(topic, codec=Order, partitions=[0], follow=False) as consumer:
        message = await consumer.__anext__()
        assert (message.value, message.offset) == (Order(1), 0)
        for offset in (1, 2):
            with pytest.raises(UndecodableMessage) as caught:
                await consumer.__anext__()
            assert caught.value.received.offset == offset
        assert (await consumer.__anext__()).value == Order(2)
    async with client.consumer(topic, codec=JSON, partitions=[0]) as consumer:
        assert (await consumer.__anext__()).value == {"id": 1}


async def test_a_purged_topic_is_read_from_where_it_begins(client, topic: str) -> None:
    await fill(client, topic, 5)
    async with client.consumer(topic, partitions=[0], follow=False) as consumer:
        assert len(await read(consumer)) == 5
        await client.purge_topic(topic)
        await fill(client, topic, 2)
        assert await read(consumer) == ["0:0", "0:1"]


async def test_a_member_alone_reads_everything_and_leaves(client, topic: str) -> None:
    await fill(client, topic, 5, 0)
    await fill(client, topic, 5, 1)
    told: list[tuple[str, tuple[int, ...]]] = []
    async with client.consumer(
        topic,
        group="g",
        follow=False,
        on_assigned=lambda partitions: told.append(("assigned", partitions)),
    ) as consumer:
        assert len(await read(consumer)) == 10
    assert told == [("assigned", (0, 1))]
    assert (await client.get_consumer_group(topic, "g")).members == ()
    assert [await stored(client, topic, p, group="g") for p in (0, 1)] == [4, 4]
    await fill(client, topic, 1, 1)
    assert await read(client.consumer(topic, group="g", follow=False)) == ["1:0"]


async def test_two_members_share_the_partitions(client, topic: str, url: str) -> None:
    told: list[tuple[str, tuple[int, ...]]] = []
    async with AsyncClient(url) as other:
        async with client.consumer(
            topic,
            group="g",
            poll_interval=0.01,
            on_assigned=lambda partitions: told.append(("assigned", partitions)),
            on_revoked=lambda partitions: told.append(("revoked", partitions)),
        ) as first:
            assert first.assignment == (0, 1)
            async with other.consumer(topic, group="g", follow=False) as second:
                while len(first.assignment) == 2 or len(second.assignment) == 0:
                    first._share._looked_at = second._share._looked_at = 0.0
                    await first._share.look()
                    await second._share.look()
                assert sorted(first.assignment + second.assignment) == [0, 1]
                await fill(client, topic, 3, second.assignment[0])
                assert len(await read(second)) == 3
            while len(first.assignment) < 2:
                first._share._looked_at = 0.0
                await first._share.look()
    moved = told[1][1]
    assert told == [("assigned", (0, 1)), ("revoked", moved), ("assigned", moved)]


async def test_mistakes_are_told(client, topic: str) -> None:
    for wrong in (
        {"commit": "never"},
        {"begin": "yesterday"},
        {"batch_messages": 0},
        {"group": "g", "partitions": [0]},
    ):
        with pytest.raises(InvalidFormat):
            client.consumer(topic, **wrong)
    with pytest.raises(TopicNotFound):
        await client.consumer(f"{topic}-not").__anext__()
    consumer = client.consumer(topic)
    await consumer.close()
    await consumer.close()
    with pytest.raises(ClientClosed):
        await consumer.__anext__()
