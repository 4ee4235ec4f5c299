import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer

from borzoi.model.errors import InvalidPartitionsCount, TooManyPartitions
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic


async def test_partitions_come_and_go_at_the_end(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    await root.call(CreatePartitions("s", "t", 2))
    await root.call(DeletePartitions("s", "t", 1))
    found = await root.call(GetTopic("s", "t"))
    assert [partition.id for partition in found.partitions] == [0, 1]
    folders = (server.directory / "streams/0/topics/0/partitions").iterdir()
    assert sorted(folder.name for folder in folders) == ["0", "1"]
    with pytest.raises(InvalidPartitionsCount):
        await root.call(DeletePartitions("s", "t", 3))
    with pytest.raises(TooManyPartitions):
        await root.call(CreatePartitions("nowhere", "t", 0))
