"""Data that goes missing between a stop and a start is noticed, named, and never replaced by an
empty start unless the operator says so."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.interpreter import run_python
from tests.support.sends import send_of
from tests.support.server import RunningServer, ServerDied, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError
from borzoi.model.topics import Compression
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

READER = Consumer(ConsumerKind.CONSUMER, "reader")


def send(client: WireClient, count: int) -> None:
    client.call(send_of(*[b"payload" * 20] * count))


def poll(client: WireClient) -> int:
    question = PollMessages(READER, "s", "t", 0, PollingStrategy.first(), 1000, False)
    polled: Any = client.call(question)
    return len(decode_messages(polled.messages))


def filled(server: RunningServer) -> Path:
    """Two streams, one of them deleted and made again; the directory of partition 0."""
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("gone"))
        client.call(DeleteStream("gone"))
        client.call(CreateStream("s"))
        client.call(CreateTopic("s", "t", 3, Compression.NONE, 0))
        client.call(DeletePartitions("s", "t", 1))
        client.call(PurgeTopic("s", "t"))
        for _ in range(20):
            send(client, 10)
    return server.directory / "streams/0/topics/0/partitions/0"


def log_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "borzoi", "log", *arguments)


def remove_streams(partition: Path) -> None:
    shutil.rmtree(partition.parents[4])


def unmount_streams(partition: Path) -> None:
    """A mount point without its volume is an empty directory."""
    remove_streams(partition)
    partition.parents[4].mkdir()


def remove_topic(partition: Path) -> None:
    shutil.rmtree(partition.parents[1])


def remove_partition(partition: Path) -> None:
    shutil.rmtree(partition)


@pytest.mark.parametrize(
    "remove", [remove_streams, unmount_streams, remove_topic, remove_partition]
)
@pytest.mark.parametrize("end", ["stop", "kill after a restart"])
def test_a_missing_directory_is_named_and_the_server_does_not_start_empty(
    remove: Callable[[Path], None], end: str
) -> None:
    with running_server({"SYSTEM_SEGMENT_SIZE": "4 KiB"}) as server:
        partition = filled(server)
        assert server.stop() == 0
        if end != "stop":
            server.start()
            server.kill()
        remove(partition)
        verified = log_command("verify", str(server.directory))
        assert verified.returncode == 1
        assert "partition 0/0/0 was on the disk and is missing" in verified.stdout
        with pytest.raises(ServerDied):
            server.start()
        assert str(partition) in server.output
        assert "is a volume not mounted" in server.output
        assert "Traceback" not in server.output
        assert not partition.exists(), "nothing was made in its place"
        repaired = log_command("repair", "--yes", str(server.directory))
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        assert "accept that the messages" in repaired.stdout
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            assert poll(client) == 0
            send(client, 1)
            assert poll(client) == 1
        assert server.stop() == 0


def test_a_log_without_its_last_segment_is_fenced_until_the_loss_is_accepted() -> None:
    with running_server({"SYSTEM_SEGMENT_SIZE": "4 KiB"}) as server:
        partition = filled(server)
        assert server.stop() == 0
        last = max(partition.glob("*.log"))
        assert int(last.stem) > 0
        last.unlink()
        last.with_suffix(".index").unlink()
        verified = log_command("verify", str(server.directory))
        assert verified.returncode == 1
        assert "messages are missing at the end" in verified.stdout
        server.start()
        assert "lost messages that were on the disk" in server.output
        with WireClient(server.tcp_address) as client:
            client.login()
            with pytest.raises(BorzoiError):
                send(client, 1)
        assert server.stop() == 0
        repaired = log_command("repair", "--yes", str(server.directory))
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
            assert poll(client) == int(last.stem)
            send(client, 1)
        assert server.stop() == 0
