from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from borzoi.cli.faults import CommandFailed
from borzoi.cli.following import (
    batches,
    followed,
    messages,
    moment_of,
    partitions_of,
    start_of,
)
from borzoi.model.errors import InvalidFormat

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", "first"),
        ("beginning", "first"),
        ("12", 12),
        ("2026-01-30T08:00+00:00", datetime(2026, 1, 30, 8, tzinfo=UTC)),
        ("10m", NOW - timedelta(minutes=10)),
        ("2 days ago", NOW - timedelta(days=2)),
    ],
)
def test_places_in_a_topic(text, start):
    assert start_of(text, now=lambda: NOW) == start


def test_what_is_no_place_is_named():
    with pytest.raises(InvalidFormat, match="'soon' is not a place in a topic"):
        start_of("soon")
    assert moment_of("1h") < datetime.now().astimezone()


@pytest.mark.system
def test_a_walk_reads_every_partition_to_its_end(client, stream):
    topic = ("shop", "orders")
    found = [(one.partition, one.offset) for one in messages(client, topic, "first")]
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(4)]
    small = list(batches(client, topic, 1, (1,), count=1))
    assert [[one.offset for one in polled] for polled in small] == [[1], [2], [3]]


@pytest.mark.system
def test_following_goes_on_where_it_was(client, stream):
    topic = ("shop", "orders")
    offsets = {0: 3, 1: 4}
    assert [one.offset for one in islice(followed(client, topic, offsets), 1)] == [3]
    client.send_messages(topic, ["more"], partition=1)
    (found,) = islice(followed(client, topic, {0: 4, 1: 4}), 1)
    assert found.payload == b"more"


@pytest.mark.system
def test_a_topic_or_partition_that_is_not_there(client, stream):
    assert partitions_of(client, ("shop", "orders"), (1,)) == [1]
    with pytest.raises(CommandFailed, match="has no partition 9"):
        partitions_of(client, ("shop", "orders"), (9,))
    with pytest.raises(CommandFailed, match="there is no topic shop/absent"):
        partitions_of(client, ("shop", "absent"), ())
