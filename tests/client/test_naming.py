"""Names of topics, partitions and places, as callers give them."""

from datetime import UTC, datetime

import pytest

from borzoi.client.naming import partitioning_of, strategy_of, topic_of
from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import InvalidFormat, InvalidIdentifier, InvalidKeyLength
from borzoi.model.partitioning import Partitioning


@pytest.mark.parametrize(
    ("name", "identifiers"),
    [
        ("orders/events", ("orders", "events")),
        ("1/2", (1, 2)),
        (("1", "a/b"), ("1", "a/b")),
        ((1, "events"), (1, "events")),
    ],
)
def test_a_topic_is_named(name, identifiers) -> None:
    assert topic_of(name) == identifiers


@pytest.mark.parametrize("name", ["", "orders", "/", "a/", "/b", "a/b/c"])
def test_half_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidIdentifier, match="write 'stream/topic'"):
        topic_of(name)


@pytest.mark.parametrize(
    ("partition", "key", "partitioning"),
    [
        (None, None, Partitioning.balanced()),
        (3, None, Partitioning.partition(3)),
        (None, "kéy", Partitioning.key("kéy".encode())),
        (None, b"\0", Partitioning.key(b"\0")),
    ],
)
def test_where_a_send_goes(partition, key, partitioning) -> None:
    assert partitioning_of(partition, key) == partitioning


@pytest.mark.parametrize(
    ("partition", "key", "fault"),
    [
        (-1, None, InvalidFormat),
        (2**32, None, InvalidFormat),
        (1, "k", InvalidFormat),
        (None, "", InvalidKeyLength),
        (None, bytes(256), InvalidKeyLength),
    ],
)
def test_where_a_send_cannot_go(partition, key, fault) -> None:
    with pytest.raises(fault):
        partitioning_of(partition, key)


@pytest.mark.parametrize(
    ("start", "strategy"),
    [
        ("first", PollingStrategy.first()),
        ("last", PollingStrategy.last()),
        ("next", PollingStrategy.next()),
        (0, PollingStrategy.offset(0)),
        (datetime(2024, 1, 1, tzinfo=UTC), PollingStrategy.timestamp(1_704_067_200_000_000)),
        (PollingStrategy.offset(7), PollingStrategy.offset(7)),
    ],
)
def test_where_a_poll_starts(start, strategy) -> None:
    assert strategy_of(start) == strategy


@pytest.mark.parametrize("start", ["earliest", "", -1, 2**64])
def test_where_no_poll_starts(start) -> None:
    with pytest.raises(InvalidFormat):
        strategy_of(start)
