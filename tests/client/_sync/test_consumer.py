# Made by tools/unasync.py from tests/client/_async/test_consumer.py: edit that one.
"""Consumers, alone and in groups, against a real server."""

from datetime import timedelta

import msgspec
import pytest

from borzoi.client import Client
from borzoi.client.codecs import JSON, UndecodableMessage
from borzoi.model.errors import ClientClosed, InvalidFormat, TopicNotFound


class Order(msgspec.Struct):
    id: int


def fill(client, topic: str, count: int = 10, partition: int = 0) -> None:
    client.send_messages(
        topic, [f"{partition}:{number}" for number in range(count)], partition=partition
    )


def read(consumer) -> list[str]:
    found = []
    for message in consumer:
        found.append(message.text())
    return found


def test_all_partitions_are_read_in_order(client, topic: str) -> None:
    fill(client, topic, 10, 0)
    fill(client, topic, 25, 1)
    with client.consumer(topic, follow=False, batch_messages=4) as consumer:
        found = read(consumer)
        assert consumer.assignment == (0, 1)
    for partition, count in ((0, 10), (1, 25)):
        mine = [text for text in found if text.startswith(f"{partition}:")]
        assert mine == [f"{partition}:{number}" for number in range(count)]


def test_some_partitions_are_read(client, topic: str) -> None:
    fill(client, topic, 3, 0)
    fill(client, topic, 3, 1)
    assert read(client.consumer(topic, partitions=[1], follow=False)) == ["1:0", "1:1", "1:2"]


def test_where_to_begin(client, topic: str) -> None:
    fill(client, topic, 5)
    first = (client.poll_messages(topic, partition=0, start=0))[0]

    def found(begin) -> list[str]:
        return read(client.consumer(topic, partitions=[0], begin=begin, follow=False))

    assert len(found("earliest")) == 5
    assert found("latest") == []
    assert found(3) == ["0:3", "0:4"]
    assert len(found(first.time)) == 5
    assert found(first.time + timedelta(days=1)) == []
    with client.consumer(topic, begin="latest", follow=False) as consumer:
        fill(client, topic, 2)
        assert len(read(consumer)) == 2


def test_new_messages_are_waited_for(client, topic: str) -> None:
    with client.consumer(topic, partitions=[0], poll_interval=0.01) as consumer:
        fill(client, topic, 3)
        for number in range(3):
            message = consumer.__next__()
            assert message.text() == f"0:{number}"
        fill(client, topic, 1)
        assert (consumer.__next__()).offset == 3


def stored(client, topic: str, partition: int = 0, **who) -> int | None:
    offset = client.get_consumer_offset(topic, partition=partition, **who)
    return None if offset is None else offset.stored_offset


@pytest.mark.parametrize(
    ("commit", "after_three", "after_four"),
    [("each", 1, 2), ("batch", None, 2), ("manual", None, None)],
)
def test_offsets_are_stored_as_told(
    client, topic: str, commit: str, after_three: int | None, after_four: int | None
) -> None:
    fill(client, topic)
    me = {"partitions": [0], "name": "reader", "batch_messages": 3}
    with client.consumer(topic, commit=commit, **me) as consumer:
        for _ in range(3):
            consumer.__next__()
        assert stored(client, topic, consumer="reader") == after_three
        consumer.__next__()
        assert stored(client, topic, consumer="reader") == after_four
    again = client.consumer(topic, commit=commit, follow=False, **me)
    rest = read(again)
    assert rest[0] == ("0:0" if after_four is None else "0:3")


def test_offsets_are_stored_at_intervals(client, topic: str) -> None:
    fill(client, topic)
    me = {"partitions": [0], "name": "reader", "commit": "interval"}
    with client.consumer(topic, commit_interval=3600, **me) as consumer:
        for _ in range(5):
            consumer.__next__()
        assert stored(client, topic, consumer="reader") is None
    assert stored(client, topic, consumer="reader") == 3
    with client.consumer(topic, commit_interval=0, **me) as consumer:
        consumer.__next__()
        consumer.__next__()
        assert stored(client, topic, consumer="reader") == 4


def test_offsets_are_stored_by_hand(client, topic: str) -> None:
    fill(client, topic)
    me = {"partitions": [0], "name": "reader", "commit": "manual"}
    with client.consumer(topic, **me) as consumer:
        first = consumer.__next__()
        consumer.__next__()
        consumer.commit(first)
        assert stored(client, topic, consumer="reader") == 0
        consumer.commit()
        assert stored(client, topic, consumer="reader") == 1
    with pytest.raises(InvalidFormat):
        client.consumer(topic).commit()


def test_a_message_whose_handler_failed_comes_again(client, topic: str) -> None:
    fill(client, topic, 5)
    seen: list[str] = []

    def handle(message) -> None:
        seen.append(message.text())
        if seen == ["0:0", "0:1", "0:2"]:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with client.consumer(topic, name="h", commit="each", follow=False) as consumer:
            consumer.run(handle)
    assert stored(client, topic, consumer="h") == 1
    with client.consumer(topic, name="h", commit="each", follow=False) as consumer:
        consumer.run(handle)
    assert seen == ["0:0", "0:1", "0:2", "0:2", "0:3", "0:4"]
    assert stored(client, topic, consumer="h") == 4


def test_batches(client, topic: str) -> None:
    fill(client, topic, 5, 0)
    fill(client, topic, 5, 1)
    with client.consumer(topic, name="b", follow=False, batch_messages=3) as consumer:
        sizes = []
        while batch := consumer.batch():
            assert len({message.partition for message in batch}) == 1
            sizes.append(len(batch))
        assert sorted(sizes) == [2, 2, 3, 3]
    assert stored(client, topic, 1, consumer="b") == 4


def test_seeking_and_pausing(client, topic: str) -> None:
    fill(client, topic, 5, 0)
    fill(client, topic, 5, 1)
    with client.consumer(topic, follow=False) as consumer:
        consumer.pause(1)
        assert len(read(consumer)) == 5
        consumer.seek(0, 3)
        assert consumer.position(0) == 3
        assert read(consumer) == ["0:3", "0:4"]
        consumer.seek(0, "earliest")
        assert (consumer.__next__()).text() == "0:0"
        assert consumer.position(0) == 1
        consumer.pause(0)
        consumer.resume(1)
        assert [text[:2] for text in read(consumer)] == ["1:"] * 5
        consumer.resume()
        assert read(consumer) == ["0:1", "0:2", "0:3", "0:4"]
        with pytest.raises(InvalidFormat, match="partition 7 is not one of"):
            consumer.seek(7, 0)
        assert consumer.position(7) is None


def test_values_are_decoded_and_one_that_is_none_is_told(client, topic: str) -> None:
    payloads = ['{"id":1}', "garbage", '{"id":"x"}', '{"id":2}']
    client.send_messages(topic, payloads, partition=0)
    with client.consumer(topic, codec=Order, partitions=[0], follow=False) as consumer:
        message = consumer.__next__()
        assert (message.value, message.offset) == (Order(1), 0)
        for offset in (1, 2):
            with pytest.raises(UndecodableMessage) as caught:
                consumer.__next__()
            assert caught.value.received.offset == offset
        assert (consumer.__next__()).value == Order(2)
    with client.consumer(topic, codec=JSON, partitions=[0]) as consumer:
        assert (consumer.__next__()).value == {"id": 1}


def test_a_purged_topic_is_read_from_where_it_begins(client, topic: str) -> None:
    fill(client, topic, 5)
    with client.consumer(topic, partitions=[0], follow=False) as consumer:
        assert len(read(consumer)) == 5
        client.purge_topic(topic)
        fill(client, topic, 2)
        assert read(consumer) == ["0:0", "0:1"]


def test_a_member_alone_reads_everything_and_leaves(client, topic: str) -> None:
    fill(client, topic, 5, 0)
    fill(client, topic, 5, 1)
    told: list[tuple[str, tuple[int, ...]]] = []
    with client.consumer(
        topic,
        group="g",
        follow=False,
        on_assigned=lambda partitions: told.append(("assigned", partitions)),
    ) as consumer:
        assert len(read(consumer)) == 10
    assert told == [("assigned", (0, 1))]
    assert (client.get_consumer_group(topic, "g")).members == ()
    assert [stored(client, topic, p, group="g") for p in (0, 1)] == [4, 4]
    fill(client, topic, 1, 1)
    assert read(client.consumer(topic, group="g", follow=False)) == ["1:0"]


def test_two_members_share_the_partitions(client, topic: str, url: str) -> None:
    told: list[tuple[str, tuple[int, ...]]] = []
    with Client(url) as other:
        with client.consumer(
            topic,
            group="g",
            poll_interval=0.01,
            on_assigned=lambda partitions: told.append(("assigned", partitions)),
            on_revoked=lambda partitions: told.append(("revoked", partitions)),
        ) as first:
            assert first.assignment == (0, 1)
            with other.consumer(topic, group="g", follow=False) as second:
                while len(first.assignment) == 2 or len(second.assignment) == 0:
                    first._share._looked_at = second._share._looked_at = 0.0
                    first._share.look()
                    second._share.look()
                assert sorted(first.assignment + second.assignment) == [0, 1]
                fill(client, topic, 3, second.assignment[0])
                assert len(read(second)) == 3
            while len(first.assignment) < 2:
                first._share._looked_at = 0.0
                first._share.look()
    moved = told[1][1]
    assert told == [("assigned", (0, 1)), ("revoked", moved), ("assigned", moved)]


def test_mistakes_are_told(client, topic: str) -> None:
    for wrong in (
        {"commit": "never"},
        {"begin": "yesterday"},
        {"batch_messages": 0},
        {"group": "g", "partitions": [0]},
    ):
        with pytest.raises(InvalidFormat):
            client.consumer(topic, **wrong)
    with pytest.raises(TopicNotFound):
        client.consumer(f"{topic}-not").__next__()
    consumer = client.consumer(topic)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosed):
        consumer.__next__()
