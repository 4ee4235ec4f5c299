"""What a server writes is for its own user alone, whatever umask it was started with."""

import os
import stat
from pathlib import Path

import pytest
from tests.support.sends import send_of
from tests.support.server import running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.topics import Compression
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic

pytestmark = pytest.mark.system


def modes_below(folder: Path) -> dict[str, str]:
    """What is not as it should be."""
    return {
        str(path): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (folder, *folder.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_directories_are_0700_and_files_0600_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    before = os.umask(umask)
    try:
        with running_server({"SYSTEM_SEGMENT_SIZE": "4 KiB"}, directory=data) as server:
            with WireClient(server.tcp_address) as client:
                client.login()
                client.call(CreateStream("s"))
                client.call(CreateTopic("s", "t", 2, Compression.NONE, 0))
                reader = Consumer(ConsumerKind.CONSUMER, "reader")
                client.call(send_of(b"payload"))
                client.call(StoreConsumerOffset(reader, "s", "t", 0, 0))
                assert modes_below(data) == {}
            assert server.stop() == 0
            assert modes_below(data) == {}
    finally:
        os.umask(before)


def test_a_directory_that_is_open_to_others_is_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    with running_server(directory=data) as server:
        assert f"{data} is open to other users (mode 0755)" in server.output
        assert server.stop() == 0
        data.chmod(0o700)
        server.start()
        assert server.output.count("is open to other users") == 1
        assert server.stop() == 0
