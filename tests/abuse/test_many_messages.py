"""Batches of a million empty messages and more: others are served meanwhile."""

import pytest
from tests.support.attacked import KEY, server_with_topic
from tests.support.attackers import attacking, empty_messages, logged_in
from tests.support.good_client import measured

pytestmark = pytest.mark.system

ENCRYPTED = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": KEY}


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 4_000_000),
        ({"ACCELERATOR": "off"}, 1_000_000),
        ({"ACCELERATOR": "off", **ENCRYPTED}, 200_000),
    ],
    ids=["accelerated", "pure Python", "encrypted"],
)
def test_a_good_client_is_served_beside_very_large_batches(
    settings: dict[str, str], count: int
) -> None:
    with server_with_topic(settings) as server:
        with logged_in(server.tcp_address) as client:
            assert client.exchange(empty_messages(count)) == (0, b"")
        alone = measured(server)
        with attacking("batches", server.tcp_address, 1, count):
            beside = measured(server)
        print(f"alone {alone}; beside batches of {count} messages {beside}")
        assert beside.work < 0.05
