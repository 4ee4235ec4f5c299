"""One server for all commands, and a command line with an empty home for each test."""

import pytest
from tests.support.accelerators import both_ways
from tests.support.command_line import borzoi, server

__all__ = ["borzoi", "both_ways", "server"]


@pytest.fixture
def client(borzoi):
    with borzoi.client() as connected:
        yield connected


@pytest.fixture
def stream(client):
    """A stream with the topic ``orders`` of two partitions, four messages in each."""
    client.create_stream("shop")
    client.create_topic("shop/orders", partitions=2)
    for partition in (0, 1):
        texts = [f'{{"n": {number}, "kind": "k{number % 2}"}}' for number in range(4)]
        client.send_messages("shop/orders", texts, partition=partition)
    yield "shop"
    if client.get_stream("shop") is not None:
        client.delete_stream("shop")
