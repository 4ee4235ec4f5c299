# Made by tools/unasync.py from tests/client/_async/test_asking.py: edit that one.
"""Requests as values: the way all methods take."""

import pytest

from borzoi.client import Client
from borzoi.model.errors import StreamNotFound
from borzoi.protocol.commands.streams import DeleteStream, GetStream, StreamDetails
from borzoi.protocol.commands.system import Ping


def test_an_answer_is_read_by_the_class_of_the_request(client: Client, stream: str) -> None:
    assert client.call(Ping()) is None
    assert client.call(GetStream("there is no such stream")) is None
    found = client.call(GetStream(stream), timeout=10)
    assert isinstance(found, StreamDetails)
    assert found.name == stream


def test_an_error_names_the_request_it_is_about(client: Client) -> None:
    with pytest.raises(StreamNotFound, match="DeleteStream") as caught:
        client.call(DeleteStream("there is no such stream"))
    assert caught.value.message == str(caught.value)
