"""A server on a disk without a free byte: it starts, serves reads, reports what is full,
and allows deletions."""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError, StorageFailure
from borzoi.model.topics import Compression
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

READER = Consumer(ConsumerKind.CONSUMER, "reader")
DISK_BYTES = 8 << 20
#: Deleting this many takes more space in the metadata log than the rest of its last page.
SMALL_TOPICS = 60


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of a few megabytes; only root may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "borzoi-test", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def send(client: WireClient, topic: str, *, size: int = 50_000) -> None:
    client.call(send_of(b"x" * size, topic=topic))


def polled(client: WireClient, topic: str) -> int:
    found: Any = client.call(
        PollMessages(READER, "s", topic, 0, PollingStrategy.first(), 10, False)
    )
    return len(decode_messages(found.messages))


def fill_up(server: RunningServer, client: WireClient, topic: str) -> None:
    """Send until the disk takes no more, and use its last bytes as well."""
    for size in (50_000, 2_000, 10):
        with contextlib.suppress(StorageFailure):
            while True:
                send(client, topic, size=size)
    take_the_rest(server)


def take_the_rest(server: RunningServer) -> None:
    """Use the last bytes of the disk."""
    with (server.directory / "crammed").open("ab", buffering=0) as file:
        with contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass


def restarted(server: RunningServer) -> None:
    """Stop and start without the readiness file, which a full disk refuses. What the stop has freed
    is used again, as is the space of the old readiness file."""
    assert server.stop() == 0
    (server.directory / "runtime" / "current_config.toml").unlink()
    take_the_rest(server)
    server.start(says="is ready at")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    settings = {"SYSTEM_SEGMENT_SIZE": "1 MiB", "SYSTEM_LOGGING_LEVEL": "debug"}
    with (
        small_disk(tmp_path) as disk,
        running_server(settings, directory=disk) as running,
    ):
        yield running  # its output lies beside the data directory, on another disk


def test_a_full_disk_serves_reads_starts_again_and_lets_people_delete(
    server: RunningServer,
) -> None:
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("s"))
        client.call(CreateStream("small"))
        for number in range(SMALL_TOPICS):
            client.call(CreateTopic("small", f"t{number}", 0, Compression.NONE, 0))
        for topic in ("a", "b", "c"):
            client.call(CreateTopic("s", topic, 1, Compression.NONE, 0))
        for topic in ("a", "b"):
            for _ in range(40):
                send(client, topic)
        fill_up(server, client, "c")
        assert polled(client, "a") == 10
    restarted(server)
    with WireClient(server.tcp_address) as client:
        client.login()
        assert polled(client, "a") == 10, "reads are served"
        assert polled(client, "c") == 10
        with pytest.raises(StorageFailure):
            send(client, "a")
        for number in range(SMALL_TOPICS):
            client.call(DeleteTopic("small", f"t{number}"))
        client.call(DeleteSegments("s", "a", 0, 1))
        client.call(DeleteTopic("s", "b"))
        wait_for_room(client, "a")
        fill_up(server, client, "c")
        client.call(PurgeTopic("s", "c"))
        wait_for_room(client, "c")
        assert polled(client, "c") > 0
        fill_up(server, client, "c")
        client.call(DeleteStream("s"))
        client.call(CreateStream("s"))
        client.call(CreateTopic("s", "new", 1, Compression.NONE, 0))
        wait_for_room(client, "new")
    assert server.stop() == 0
    assert "Traceback" not in server.output
    assert "No space left on device" in server.output
    assert str(server.directory / "runtime" / "current_config.toml") in server.output


def wait_for_room(client: WireClient, topic: str) -> None:
    """Deleted files go soon after the answer; each attempt is a request, so none is wasted."""
    for _ in range(1000):
        try:
            send(client, topic)
        except BorzoiError:
            continue
        return
    pytest.fail("no space came free")
