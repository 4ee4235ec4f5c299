"""Requests as values: the way all methods take."""

import pytest

from borzoi.client import AsyncClient
from borzoi.model.errors import StreamNotFound
from borzoi.protocol.commands.streams import DeleteStream, GetStream, StreamDetails
from borzoi.protocol.commands.system import Ping


async def test_an_answer_is_read_by_the_class_of_the_request(
    client: AsyncClient, stream: str
) -> None:
    assert await client.call(Ping()) is None
    assert await client.call(GetStream("there is no such stream")) is None
    found = await client.call(GetStream(stream), timeout=10)
    assert isinstance(found, StreamDetails)
    assert found.name == stream


async def test_an_error_names_the_request_it_is_about(client: AsyncClient) -> None:
    with pytest.raises(StreamNotFound, match="DeleteStream") as caught:
        await client.call(DeleteStream("there is no such stream"))
    assert caught.value.message == str(caught.value)
