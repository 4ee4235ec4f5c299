"""What is deleted gives its memory and its disk space back: no descriptor of it stays open."""

import os
import time
from pathlib import Path

import pytest
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.catalog import Request
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic

pytestmark = pytest.mark.system

#: Files are removed after the answer, away from the loop, and a sync under way ends first.
PATIENCE_SECONDS = 60.0
BATCHES = 8
BATCH = [bytes(1000)] * 600


def fill(client: WireClient) -> None:
    """Several sealed segments in one partition, a few messages in the other, and readers."""
    client.call(CreateStream("s"))
    client.call(CreateTopic("s", "t", 2))
    for partition in (*[0] * BATCHES, 1):
        client.call(send_of(*BATCH, partitioning=Partitioning.partition(partition)))
    for offset in range(0, 600 * BATCHES, 600):
        client.call(poll_of(600, strategy=PollingStrategy.offset(offset)))


def open_though_deleted(server: RunningServer) -> list[str]:
    assert server.process is not None
    found = []
    for descriptor in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith(str(server.directory)) and target.endswith("(deleted)"):
            found.append(target)
    return found


def still_on_the_disk(server: RunningServer) -> list[str]:
    """By `os.walk`, which does not mind that folders vanish while it looks."""
    trash = server.directory / "streams" / "trash"
    return [name for _, _, names in os.walk(trash) for name in names]


@pytest.mark.parametrize("acknowledge", ["buffered", "written", "synced"])
@pytest.mark.parametrize(
    "deletion",
    [DeleteStream("s"), DeleteTopic("s", "t"), DeletePartitions("s", "t", 2), PurgeTopic("s", "t")],
    ids=lambda deletion: type(deletion).__name__,
)
def test_no_descriptor_of_deleted_data_stays_open(deletion: Request, acknowledge: str) -> None:
    settings = {
        "SYSTEM_SEGMENT_SIZE": "1 MiB",
        "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge,
    }
    with running_server(settings) as server, WireClient(server.tcp_address) as client:
        client.login()
        fill(client)
        client.call(deletion)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while still_on_the_disk(server) or open_though_deleted(server):
            if time.monotonic() > deadline:
                assert still_on_the_disk(server) == []
                assert open_though_deleted(server) == []
            time.sleep(0.01)
