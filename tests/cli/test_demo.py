import json
import random

import pytest

from borzoi.cli.demo import GROUP, PARTITIONS, STREAM, TOPICS, hash_of
from borzoi.cli.lag import lag_of


def test_messages_have_their_keys_and_are_the_same_for_a_seed():
    for make, key, _ in TOPICS.values():
        assert key in make(random.Random(1), 0)
        assert make(random.Random(1), 0) == make(random.Random(1), 0)


def test_a_hash_that_is_the_same_in_every_process():
    assert hash_of("ab") == ord("a") + 2 * ord("b")
    assert hash_of("ab") != hash_of("ba")


@pytest.mark.system
def test_three_topics_and_a_group_that_lags(borzoi, client):
    borzoi.run("demo", "--messages", "1500")
    try:
        for name in TOPICS:
            topic = client.get_topic((STREAM, name))
            assert topic.messages_count == 1500
            assert len(topic.partitions) == PARTITIONS
        polled = client.poll_messages((STREAM, "orders"), partition=0, start="first", count=1)
        assert "amount" in json.loads(polled.messages[0].payload)
        behind = sum(row["lag"] for row in lag_of(client, (STREAM, "orders"), GROUP))
        assert 0 < behind < 1500
        borzoi.run("demo", "--seconds", "0")
        assert client.get_topic((STREAM, "orders")).messages_count == 1520
    finally:
        client.delete_stream(STREAM)
