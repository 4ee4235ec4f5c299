from pathlib import Path

from tests.support.embedded import EmbeddedServer, embedded_server, with_topic
from tests.support.sends import send_of

from borzoi.protocol.commands.topics import GetTopic
from borzoi.records.message import Message

SETTINGS = {"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true"}


async def sent(server: EmbeddedServer, *ids: int) -> int:
    """Send messages with these ids; how many the partition holds then."""
    root = server.root()
    await root.call(send_of(*(Message(b"m", id=number) for number in ids)))
    topic = await root.call(GetTopic("s", "t"))
    count: int = topic.messages_count
    return count


async def test_ids_sent_before_a_restart_are_still_duplicates(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, SETTINGS) as server:
        await with_topic(server, partitions=1)
        assert await sent(server, 1, 2) == 2
        assert await sent(server, 2, 1) == 2
    async with embedded_server(tmp_path, SETTINGS) as server:
        assert await sent(server, 2, 3, 3) == 3


async def test_only_as_many_ids_are_remembered_as_configured(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, SETTINGS) as server:
        await with_topic(server, partitions=1)
        assert await sent(server, *range(1, 11)) == 10
    few = {**SETTINGS, "SYSTEM_MESSAGE_DEDUPLICATION_MAX_ENTRIES": "3"}
    async with embedded_server(tmp_path, few) as server:
        assert await sent(server, 10) == 10
        assert await sent(server, 1) == 11
