"""Frames over TCP on an event loop, and inside TLS in both colours: order, overlap, every end."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest
import uvloop
from tests.support.certificates import encrypted_server
from tests.support.scripted_server import SILENCE, Asked, echo, in_three_parts, scripted
from tests.support.transports import closed_under_requests

from borzoi.client import AsyncClient, Client
from borzoi.client.options import Address, Options, Tls
from borzoi.client.transports.blocking_tcp import TcpTransport
from borzoi.client.transports.tcp import AsyncTcpTransport, unsent
from borzoi.model.errors import CannotConnect, Disconnected, RequestTimeout

PATIENCE = 60.0


def address_of(server) -> Address:
    return Address(*server.address)


@pytest.mark.parametrize(
    ("sent", "rest"),
    [(0, [b"ab", b"cd"]), (1, [b"b", b"cd"]), (2, [b"cd"]), (3, [b"d"]), (4, [])],
)
def test_what_is_left_of_the_parts(sent: int, rest: list[bytes]) -> None:
    assert [bytes(part) for part in unsent([b"ab", b"", b"cd"], sent) if part] == rest


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_many_requests_share_a_connection_and_each_gets_its_own_answer(runner) -> None:
    payloads = [bytes([number]) * (1 + number * 9973) for number in range(2, 100)]

    async def ask_all() -> list[bytes]:
        transport = await AsyncTcpTransport.connect(address_of(server), Options())
        try:
            answers = await asyncio.gather(
                *(transport.exchange(in_three_parts(payload), PATIENCE) for payload in payloads)
            )
            return [bytes(answer.payload) for answer in answers]
        finally:
            await transport.close()

    with scripted(echo) as server:
        assert runner(ask_all()) == payloads


async def test_a_task_that_is_cancelled_leaves_the_connection_to_the_others() -> None:
    release = threading.Event()

    def slow(asked: Asked) -> bytes:
        if asked.payload == b"slow":
            release.wait(PATIENCE)
        return echo(asked)

    with scripted(slow) as server:
        transport = await AsyncTcpTransport.connect(address_of(server), Options())
        waiting = asyncio.create_task(transport.exchange(in_three_parts(b"slow"), PATIENCE))
        behind = asyncio.create_task(transport.exchange(in_three_parts(b"next"), PATIENCE))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        release.set()
        assert (await behind).payload == b"next"
        assert transport.is_open
        await transport.close()


async def test_who_waits_when_it_is_closed_is_told() -> None:
    with scripted(lambda _: SILENCE) as server:
        transport = await AsyncTcpTransport.connect(address_of(server), Options())
        await closed_under_requests(transport, in_three_parts(b"x"), 3)


async def test_a_late_answer_ends_the_connection_for_everyone() -> None:
    with scripted(lambda _: SILENCE) as server:
        transport = await AsyncTcpTransport.connect(address_of(server), Options())
        patient = asyncio.create_task(transport.exchange(in_three_parts(b"x"), PATIENCE))
        with pytest.raises(RequestTimeout):
            await transport.exchange(in_three_parts(b"y"), 0.01)
        with pytest.raises(Disconnected):
            await patient
        await transport.close()


async def test_a_server_that_does_not_read_holds_senders_up_but_not_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = Address(*deaf.getsockname())
        transport = await AsyncTcpTransport.connect(address, Options())
        first = asyncio.create_task(transport.exchange(in_three_parts(bytes(50_000_000)), 0.3))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeout):
            await transport.exchange(in_three_parts(b"x"), 0.01)
        with pytest.raises(RequestTimeout):
            await first
        await transport.close()


def test_an_address_that_answers_nobody_is_given_up_in_time() -> None:
    # A listener whose queue is full lets connections wait.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = Address(*full.getsockname())
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        options = Options(connect_timeout=0.1)
        try:
            with pytest.raises(CannotConnect):
                TcpTransport.connect(address, options)
            with pytest.raises(CannotConnect):
                asyncio.run(AsyncTcpTransport.connect(address, options))
        finally:
            for filler in fillers:
                filler.close()


# ---- TLS ----------------------------------------------------------------------------------------


@pytest.mark.system
async def test_tls_carries_the_same_frames(tmp_path: Path) -> None:
    payloads = [bytes([number % 251]) * 1000 for number in range(2000)]
    with encrypted_server(tmp_path, "tcp") as (address, certificate):
        url = f"borzoi://iggy:iggy@{address}?tls=true&tls_domain=localhost"
        async with AsyncClient(f"{url}&tls_ca_file={certificate}") as client:
            await client.create_stream("s")
            await client.create_topic("s/t")
            await client.send_messages("s/t", payloads, partition=0)
            polled = await client.poll_messages("s/t", partition=0, start=0, count=2000)
            assert [message.payload for message in polled] == payloads

        def blocking() -> None:
            with Client(f"{url}&tls_validate_certificate=false") as client:
                client.send_messages("s/t", payloads, partition=0)
                polled = client.poll_messages("s/t", partition=0, start=2000, count=2000)
                assert [message.payload for message in polled] == payloads

        await asyncio.to_thread(blocking)
        for tls in (Tls(domain="localhost"), Tls(domain="elsewhere", ca_file=str(certificate))):
            options = Options((address,), tls=tls)
            with pytest.raises(CannotConnect, match="check tls_domain"):
                await AsyncTcpTransport.connect(address, options)
            with pytest.raises(CannotConnect, match="check tls_domain"):
                await asyncio.to_thread(TcpTransport.connect, address, options)
        with pytest.raises(CannotConnect):
            async with AsyncClient(f"borzoi://iggy:iggy@{address}", connect_timeout=2):
                pass
