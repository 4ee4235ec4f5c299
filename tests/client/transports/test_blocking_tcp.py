"""Frames over TCP with blocking calls: order, overlap, patience, and every way to end."""

import socket
import threading
import time

import pytest
from tests.support.scripted_server import SILENCE, Asked, echo, in_three_parts, scripted

from borzoi.client.options import Address, Options
from borzoi.client.transports import blocking_tcp
from borzoi.client.transports.blocking_tcp import KernelTimeout, TcpTransport
from borzoi.model.errors import ClientClosed, RequestTimeout

PATIENCE = 60.0


def address_of(server) -> Address:
    return Address(*server.address)


def test_threads_share_a_connection_and_each_gets_its_own_answer() -> None:
    with scripted(echo) as server:
        transport = TcpTransport.connect(address_of(server), Options())
        wrong: list[int] = []

        def ask(number: int) -> None:
            for turn in range(30):
                payload = bytes([number, turn]) * (1 + number * 5000)
                if bytes(transport.exchange(in_three_parts(payload), PATIENCE).payload) != payload:
                    wrong.append(number)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        transport.close()
        assert wrong == []


def test_a_thread_that_waits_when_it_is_closed_is_told() -> None:
    with scripted(lambda _: SILENCE) as server:
        transport = TcpTransport.connect(address_of(server), Options())
        told: list[BaseException] = []

        def ask() -> None:
            try:
                transport.exchange(in_three_parts(b"x"), PATIENCE)
            except ClientClosed as fault:
                told.append(fault)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(server.asked) < 3:
            time.sleep(0.001)
        transport.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(told) == 3
        assert not transport.is_open


def test_a_server_that_does_not_read_holds_a_thread_up_but_not_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        transport = TcpTransport.connect(Address(*deaf.getsockname()), Options())
        with pytest.raises(RequestTimeout):
            transport.exchange(in_three_parts(bytes(50_000_000)), 0.05)
        assert not transport.is_open


def test_an_interrupted_call_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(echo) as server:
        transport = TcpTransport.connect(address_of(server), Options())

        def interrupt(until: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(transport, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            transport.exchange(in_three_parts(b"xy"), PATIENCE)
        assert not transport.is_open


def test_an_answer_that_takes_several_waits_of_the_kernel_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking_tcp, "WAIT_SECONDS_MAX", 0.01)
    answer = bytes(range(256)) * 4000

    def slow(asked: Asked) -> bytes:
        time.sleep(0.05)
        return echo(asked)

    with scripted(slow) as server:
        transport = TcpTransport.connect(address_of(server), Options())
        assert bytes(transport.exchange(in_three_parts(answer), PATIENCE).payload) == answer
        transport.close()


def test_an_answer_that_is_late_ends_the_connection_in_time() -> None:
    with scripted(lambda _: SILENCE) as server:
        transport = TcpTransport.connect(address_of(server), Options())
        begun = time.monotonic()
        with pytest.raises(RequestTimeout):
            transport.exchange(in_three_parts(b"x"), 0.05)
        assert time.monotonic() - begun >= 0.05
        assert not transport.is_open


def test_a_timeout_of_the_kernel_is_set_again_only_when_it_changes() -> None:
    given: list[tuple[int, int]] = []

    class Counted(socket.socket):
        def setsockopt(self, level: int, option: int, value: bytes) -> None:  # type: ignore[override]
            seconds, microseconds = blocking_tcp.TIMEVAL.unpack(value)
            given.append((seconds, microseconds))
            super().setsockopt(level, option, value)

    with Counted() as sock:
        timeout = KernelTimeout(sock, socket.SO_RCVTIMEO)
        for seconds in (30.0, 29.5, 0.25, 0.25, 0.0, 5.0):
            timeout.limit(seconds)
    assert given == [(1, 0), (0, 250_000), (0, 1), (1, 0)]
