"""QUIC in both colours, against a real server: streams, limits, certificates and endings."""

import asyncio
import threading

import pytest
from tests.support.certificates import encrypted_server
from tests.support.server import running_server
from tests.support.transports import closed_under_requests

from borzoi.client import AsyncClient, Client
from borzoi.client.connection_string import parse
from borzoi.client.transports.quic import AsyncQuicTransport, QuicTransport
from borzoi.model.errors import CannotConnect, ClientClosed, ConnectionLost, RequestTimeout
from borzoi.protocol.commands.system import GetStats, Ping
from borzoi.protocol.framing import encode_request

PING = [encode_request(Ping())]
PATIENCE = 60.0


@pytest.fixture
def transport() -> str:
    return "quic"


async def connected(url: str) -> AsyncQuicTransport:
    options = parse(url)
    return await AsyncQuicTransport.connect(options.addresses[0], options)


async def test_more_requests_at_once_than_a_server_has_streams(url: str) -> None:
    transport = await connected(url)
    answers = await asyncio.gather(*(transport.exchange(PING, PATIENCE) for _ in range(500)))
    assert {answer.status for answer in answers} == {0}
    await transport.close()


def test_threads_share_a_connection(url: str) -> None:
    with Client(url) as client:
        found: list[int] = []

        def ask() -> None:
            for _ in range(20):
                found.append(client.get_stats().process_id)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 160
        assert len(set(found)) == 1


async def test_a_task_that_is_cancelled_leaves_the_connection_to_the_others(url: str) -> None:
    transport = await connected(url)
    waiting = asyncio.create_task(transport.exchange(PING, PATIENCE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await transport.exchange(PING, PATIENCE)).status == 0
    assert transport.is_open
    await transport.close()


async def test_who_waits_when_it_is_closed_is_told(url: str) -> None:
    transport = await connected(url)
    await closed_under_requests(transport, PING, 300)
    assert not transport.is_open


async def test_an_answer_that_does_not_come_ends_the_connection(url: str) -> None:
    transport = await connected(url)
    with pytest.raises(RequestTimeout):
        await transport.exchange([encode_request(GetStats())], 0.000_001)
    assert not transport.is_open
    with pytest.raises(ConnectionLost):
        await transport.exchange(PING, PATIENCE)
    await transport.close()


def test_a_blocking_one_leaves_no_thread(url: str) -> None:
    options = parse(url)
    before = threading.active_count()
    transport = QuicTransport.connect(options.addresses[0], options)
    assert transport.exchange(PING, PATIENCE).status == 0
    transport.close()
    transport.close()
    assert not transport.is_open
    assert threading.active_count() == before
    with pytest.raises(ClientClosed):
        transport.exchange(PING, PATIENCE)


@pytest.mark.system
async def test_a_certificate_is_judged_when_asked_for(tmp_path) -> None:
    with encrypted_server(tmp_path, "quic") as (address, certificate):
        url = f"iggy+quic://iggy:iggy@localhost:{address.port}?connect_timeout=60s"
        for options in ("", f"&tls_ca_file={certificate}", "&validate_certificate=false"):
            async with AsyncClient(url + options) as client:
                await client.ping()
        for options in ("&tls=true", f"&tls_ca_file={certificate}&tls_domain=example.org"):
            with pytest.raises(CannotConnect, match="check tls_domain and tls_ca_file"):
                async with AsyncClient(url + options):
                    pass


@pytest.mark.system
async def test_a_server_that_goes_away_is_noticed() -> None:
    settings = {"QUIC_ENABLED": "true", "QUIC_ADDRESS": "127.0.0.1:0"}
    with running_server(settings) as server:
        host, port = server.addresses["quic"]
        transport = await connected(f"borzoi+quic://{host}:{port}?connect_timeout=60s")
        assert await asyncio.to_thread(server.stop) == 0
        with pytest.raises(ConnectionLost):
            await asking_on(transport)
        await transport.close()


async def asking_on(transport: AsyncQuicTransport) -> None:
    while True:
        await transport.exchange(PING, PATIENCE)
