from pathlib import Path

import pytest
from tests.support.embedded import embedded_server
from tests.support.sends import send_of

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
from borzoi.storage.state_log import StateLog


async def test_messages_outlive_the_metadata_log_when_asked(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        root = server.root()
        for name in ("one", "two"):
            await root.call(CreateStream(name))
            await root.call(CreateTopic(name, "t", 2))
        await root.call(send_of(b"kept", stream="two", partitioning=Partitioning.partition(1)))
        await root.call(DeleteStream("one"))
    (tmp_path / "state.messages").unlink()
    with pytest.raises(InvalidConfiguration, match="recreate_missing_state"):
        async with embedded_server(tmp_path):
            pass
    settings = {"SYSTEM_RECOVERY_RECREATE_MISSING_STATE": "true"}
    for _ in range(2):
        async with embedded_server(tmp_path, settings) as server:
            topic = await server.root().call(GetTopic("stream-1", "topic-0"))
            assert [one.messages_count for one in topic.partitions] == [0, 1]


async def test_a_crash_while_streams_are_named_anew_loses_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as server:
        await server.root().call(CreateStream("one"))
        await server.root().call(CreateTopic("one", "t", 2))
    (tmp_path / "state.messages").unlink()
    settings = {"SYSTEM_RECOVERY_RECREATE_MISSING_STATE": "true"}

    class PowerOff(BaseException):
        pass

    def die(*_given: object, **_named: object) -> None:
        raise PowerOff

    # Root is in the new log already, what was found is not.
    with monkeypatch.context() as patched:
        patched.setattr(StateLog, "take_snapshot", die)
        with pytest.raises(PowerOff):
            async with embedded_server(tmp_path, settings):
                pass
    with pytest.raises(InvalidConfiguration, match="recreate_missing_state"):
        async with embedded_server(tmp_path):
            pass
    for _ in range(2):
        async with embedded_server(tmp_path, settings) as server:
            topic = await server.root().call(GetTopic("stream-0", "topic-0"))
            assert len(topic.partitions) == 2
            assert [user.username for user in server.opened.state.users.values()] == ["iggy"]
