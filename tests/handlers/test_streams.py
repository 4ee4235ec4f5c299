import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer

from borzoi.model.errors import StreamNameTaken, StreamNotFound
from borzoi.protocol.commands import streams
from borzoi.protocol.commands.topics import CreateTopic


async def test_a_created_stream_is_listed_and_described(root: EmbeddedClient) -> None:
    created = await root.call(streams.CreateStream("orders"))
    assert (created.id, created.name) == (0, "orders")
    await root.call(CreateTopic("orders", "placed", 2))
    assert [stream.topics_count for stream in (await root.call(streams.GetStreams())).streams] == [
        1
    ]
    assert (await root.call(streams.GetStream("orders"))).topics[0].name == "placed"


async def test_a_missing_stream_is_an_empty_answer_to_a_question(root: EmbeddedClient) -> None:
    assert await root.call(streams.GetStream("nowhere")) is None
    with pytest.raises(StreamNotFound):
        await root.call(streams.DeleteStream("nowhere"))


async def test_names_are_unique_and_can_change(root: EmbeddedClient) -> None:
    await root.call(streams.CreateStream("one"))
    await root.call(streams.CreateStream("two"))
    with pytest.raises(StreamNameTaken):
        await root.call(streams.CreateStream("one"))
    with pytest.raises(StreamNameTaken):
        await root.call(streams.UpdateStream("two", "one"))
    await root.call(streams.UpdateStream("two", "three"))
    assert (await root.call(streams.GetStream("three"))).id == 1


async def test_a_deleted_stream_takes_its_folder_with_it(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(streams.CreateStream("orders"))
    await root.call(CreateTopic("orders", "placed", 1))
    folder = server.directory / "streams" / "0"
    assert folder.is_dir()
    await root.call(streams.PurgeStream("orders"))
    await root.call(streams.DeleteStream("orders"))
    assert not folder.exists()
