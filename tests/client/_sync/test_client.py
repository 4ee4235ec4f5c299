# Made by tools/unasync.py from tests/client/_async/test_client.py: edit that one.
"""A client as a whole: how it begins, how it ends, what it says when there is no server."""

import socket

import pytest

from borzoi.client import Client
from borzoi.model.errors import CannotConnect, ClientClosed, InvalidCredentials
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import GetStreams, Streams


def test_there_is_a_method_for_every_command_with_a_sentence_about_it() -> None:
    for code in REQUESTS:
        method = getattr(Client, Code(code).name.lower())
        assert method.__doc__


def test_it_connects_with_the_first_call_if_not_before(url: str) -> None:
    client = Client(url)
    assert repr(client).endswith("not connected>")
    client.get_streams()
    assert client.is_connected
    assert repr(client).endswith(", connected>")
    client.close()
    assert repr(client).endswith("not connected>")


def test_a_closed_client_says_so(url: str) -> None:
    with Client(url) as client:
        pass
    with pytest.raises(ClientClosed):
        client.ping()
    client.close()


def test_any_request_can_be_made_as_a_value(client: Client, stream: str) -> None:
    answer = client.call(GetStreams())
    assert isinstance(answer, Streams)
    assert stream in {each.name for each in answer.streams}


def test_an_address_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(CannotConnect, match="is the server running there") as caught:
            with Client(f"borzoi://iggy:iggy@127.0.0.1:{port}"):
                pass
    assert (caught.value.code, caught.value.name) == (9, "cannot_establish_connection")


def test_the_next_address_is_tried(url: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        deaf = f"127.0.0.1:{bound.getsockname()[1]}"
        with Client(url.replace("@", f"@{deaf},")) as client:
            client.get_me()


def test_wrong_credentials_end_the_attempt(url: str) -> None:
    with pytest.raises(InvalidCredentials):
        with Client(url.replace("iggy:iggy", "iggy:wrong")):
            pass


def test_arguments_override_the_connection_string() -> None:
    client = Client("borzoi://localhost?timeout=1s", timeout=2.0, connect_timeout=3.0)
    assert (client.options.timeout, client.options.connect_timeout) == (2.0, 3.0)
