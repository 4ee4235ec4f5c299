import pytest

from borzoi.cli.top import Sample, TopicRow, sample, screen, topic_rows


def test_rates_since_the_sample_before_the_busiest_first():
    before = Sample(10.0, {"a/x": 100, "a/y": 50}, {"a/x": 1000, "a/y": 500})
    now = Sample(12.0, {"a/x": 110, "a/y": 90, "a/new": 7}, {"a/x": 2000, "a/y": 900, "a/new": 70})
    rows = topic_rows(before, now, {"a/x": 1, "a/y": 2, "a/new": 3})
    assert rows == [
        TopicRow("a/y", 2, 90, 900, 20.0, 200.0),
        TopicRow("a/x", 1, 110, 2000, 5.0, 500.0),
        TopicRow("a/new", 3, 7, 70, 0.0, 0.0),
    ]


def test_a_purge_is_no_negative_rate_and_the_first_sample_has_none():
    before, now = Sample(0.0, {"t": 9}, {"t": 9}), Sample(1.0, {"t": 0}, {"t": 0})
    assert topic_rows(before, now, {"t": 1})[0].messages_per_second == 0
    assert topic_rows(None, before, {"t": 1})[0].messages_per_second == 0


@pytest.mark.system
@pytest.mark.parametrize("columns", ["40", "80"])
def test_screens_of_a_server(borzoi, client, stream, columns):
    client.create_consumer_group("shop/orders", "billing")
    borzoi.environment = {"COLUMNS": columns, "LINES": "24"}
    said = borzoi.run("top", "--count", "2", "-i", "0.1")
    assert "shop/orders" in said
    assert "msg/s" in said
    assert max(map(len, said.splitlines())) <= int(columns)


@pytest.mark.system
def test_a_sample_is_what_the_server_says(client, stream):
    taken, partitions, names = sample(client)
    assert taken.messages["shop/orders"] == 8
    assert partitions["shop/orders"] == 2
    assert ("shop", "orders") in names
    rows = topic_rows(None, taken, partitions)
    assert screen(client.get_stats(), rows, [], width=80, height=24) is not None
