"""A client as a whole: how it begins, how it ends, what it says when there is no server."""

import socket

import pytest

from borzoi.client import AsyncClient
from borzoi.model.errors import CannotConnect, ClientClosed, InvalidCredentials
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import GetStreams, Streams


def test_there_is_a_method_for_every_command_with_a_sentence_about_it() -> None:
    for code in REQUESTS:
        method = getattr(AsyncClient, Code(code).name.lower())
        assert method.__doc__


async def test_it_connects_with_the_first_call_if_not_before(url: str) -> None:
    client = AsyncClient(url)
    assert repr(client).endswith("not connected>")
    await client.get_streams()
    assert client.is_connected
    assert repr(client).endswith(", connected>")
    await client.close()
    assert repr(client).endswith("not connected>")


async def test_a_closed_client_says_so(url: str) -> None:
    async with AsyncClient(url) as client:
        pass
    with pytest.raises(ClientClosed):
        await client.ping()
    await client.close()


async def test_any_request_can_be_made_as_a_value(client: AsyncClient, stream: str) -> None:
    answer = await client.call(GetStreams())
    assert isinstance(answer, Streams)
    assert stream in {each.name for each in answer.streams}


async def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(CannotConnect, match="is the server running there") as caught:
            async with AsyncClient(f"borzoi://iggy:iggy@127.0.0.1:{port}"):
                pass
    assert (caught.value.code, caught.value.name) == (9, "cannot_establish_connection")


async def test_the_next_address_is_tried(url: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        deaf = f"127.0.0.1:{bound.getsockname()[1]}"
        async with AsyncClient(url.replace("@", f"@{deaf},")) as client:
            await client.get_me()


async def test_wrong_credentials_end_the_attempt(url: str) -> None:
    with pytest.raises(InvalidCredentials):
        async with AsyncClient(url.replace("iggy:iggy", "iggy:wrong")):
            pass


def test_arguments_override_the_connection_string() -> None:
    client = AsyncClient("borzoi://localhost?timeout=1s", timeout=2.0, connect_timeout=3.0)
    assert (client.options.timeout, client.options.connect_timeout) == (2.0, 3.0)
