from pathlib import Path

import pytest
from tests.support.embedded import embedded_server
from tests.support.sends import send_of

from borzoi.model.errors import PartitionNotFound
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic


async def test_the_oldest_sealed_segments_go_and_the_open_one_stays(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "512 B"}) as server:
        root = server.root()
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", "t", 1))
        for _ in range(5):
            await root.call(send_of(b"x" * 500))
        await root.call(DeleteSegments("s", "t", 0, 100))
        (partition,) = (await root.call(GetTopic("s", "t"))).partitions
        assert (partition.segments_count, partition.messages_count) == (1, 1)
        assert partition.current_offset == 4
        with pytest.raises(PartitionNotFound):
            await root.call(DeleteSegments("s", "t", 7, 1))
