"""The transport that a connection string means."""

import sys

import pytest
from tests.support.certificates import encrypted_server

from borzoi.client import AsyncClient, Client
from borzoi.client.connection_string import SCHEMES, parse
from borzoi.client.transports.dialling import async_dial, dial
from borzoi.model.errors import CannotConnect, FeatureUnavailable
from borzoi.model.system import TransportKind

#: Port 1 of this machine: nothing listens there.
NOWHERE = "127.0.0.1:1?connect_timeout=200ms"


async def is_refused(scheme: str, fault: type[Exception], sentence: str) -> None:
    options = parse(f"{scheme}://{NOWHERE}")
    (address,) = options.addresses
    with pytest.raises(fault, match=sentence):
        await async_dial(address, options)
    with pytest.raises(fault, match=sentence):
        dial(address, options)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_an_address_where_nobody_is_is_told(scheme: str) -> None:
    await is_refused(scheme, CannotConnect, r"127\.0\.0\.1:1")


async def test_without_its_library_quic_is_told_to_be_missing(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "qh3.asyncio.protocol", None)
    monkeypatch.delitem(sys.modules, "borzoi.client.transports.quic", raising=False)
    monkeypatch.delattr("borzoi.client.transports.quic", raising=False)
    await is_refused("borzoi+quic", FeatureUnavailable, r"install borzoi\[quic\]")


@pytest.mark.parametrize(
    ("transport", "kind"),
    [("tcp", TransportKind.TCP), ("ws", TransportKind.WEBSOCKET), ("quic", TransportKind.QUIC)],
)
async def test_the_server_sees_what_was_asked_for(url: str, kind: TransportKind) -> None:
    async with AsyncClient(url) as client:
        assert (await client.get_me()).transport is kind


@pytest.mark.system
@pytest.mark.parametrize(
    ("scheme", "transport"), [("borzoi+https", "http"), ("borzoi+wss", "websocket")]
)
async def test_it_can_be_encrypted(tmp_path, scheme: str, transport: str) -> None:
    with encrypted_server(tmp_path, transport) as (address, certificate):
        url = f"{scheme}://iggy:iggy@localhost:{address.port}?tls_ca_file={certificate}"
        async with AsyncClient(url) as client:
            await client.ensure_topic("s/t")
            await client.send_messages("s/t", [b"x" * 70_000] * 20)
            assert len(await client.poll_messages("s/t", partition=0, start=0)) == 20
        with Client(url) as client:
            assert len(client.poll_messages("s/t", partition=0, start=0)) == 20
        with pytest.raises(CannotConnect, match="tls_ca_file"):
            Client(f"{scheme}://{address}").connect()


@pytest.mark.parametrize("transport", ["tcp", "ws", "quic", "http"])
def test_a_connection_that_was_lost_is_made_again(url: str) -> None:
    with Client(url) as client:
        before = client._session.generation
        connection = client._session._transport
        assert connection is not None
        connection.close()
        assert client.get_streams() is not None
        assert client._session.generation == before + 1
