"""Dropped, delayed, silent and refused connections, and what the client makes of them."""

import time
from collections.abc import Iterator

import pytest

from borzoi.client import Client
from borzoi.model.errors import CannotConnect, RequestTimeout
from borzoi.testing import Proxy, Server

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with server.proxy() as open_proxy:
        yield open_proxy


def test_it_forwards(proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        client.ensure_topic("forwarded/t")
        client.send_messages("forwarded/t", [bytes(100_000)] * 20, partition=0)
        assert len(client.poll_messages("forwarded/t", partition=0, start=0)) == 20


def test_a_dropped_connection_is_made_again(proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        for number in range(1, 4):
            client.get_streams()
            assert proxy.connections == number
            proxy.drop()


def test_a_delay_is_felt(proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        proxy.delay(0.05)
        before = time.perf_counter()
        client.ping()
        assert time.perf_counter() - before >= 0.1
        proxy.delay(0)


def test_silence_ends_calls_in_time(proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        proxy.silence()
        with pytest.raises(RequestTimeout):
            client.ping(timeout=0.05)
        proxy.speak()
        client.ping()


def test_a_refused_connection_is_no_server(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(CannotConnect):
        Client(proxy.url).ping()
    proxy.refuse(False)
    with Client(proxy.url) as client:
        client.ping()


def test_a_server_that_is_gone_is_no_server() -> None:
    with Server() as server:
        proxy = server.proxy()
    with proxy, pytest.raises(CannotConnect):
        Client(proxy.url).ping()
