"""A real server archives while it serves, is killed, and comes back from its archive elsewhere."""

import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.support.interpreter import run_python
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

PATIENCE_SECONDS = 120
BATCHES, PER_BATCH = 12, 20


def borzoi(*arguments: object) -> str:
    done = run_python("-m", "borzoi", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def segments_archived(server: RunningServer) -> int:
    """As the server publishes it."""
    host, port = server.addresses["http"]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        found = re.search(
            rb'borzoi_archive_segments_total\{outcome="archived"\} (\d+)', answer.read()
        )
    assert found is not None
    return int(found[1])


def test_a_killed_server_comes_back_from_its_archive(tmp_path: Path) -> None:
    archive = tmp_path / "backup"
    settings = {
        "SYSTEM_SEGMENT_SIZE": "8 KiB",
        "SYSTEM_BACKUP_PATH": str(archive),
        "SYSTEM_BACKUP_ARCHIVER_ENABLED": "true",
        "SYSTEM_BACKUP_ARCHIVER_NAME": "node",
        "SYSTEM_BACKUP_ARCHIVER_INTERVAL": "1 s",
        "HTTP_ENABLED": "true",
        "HTTP_ADDRESS": "127.0.0.1:0",
    }
    payloads = [b"%06d" % number * 100 for number in range(BATCHES * PER_BATCH)]
    with running_server(settings, directory=tmp_path / "data") as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateStream("s"))
            client.call(CreateTopic("s", "t", 1))
            for first in range(0, len(payloads), PER_BATCH):
                client.call(send_of(*payloads[first : first + PER_BATCH]))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while segments_archived(server) < BATCHES // 2:
            assert time.monotonic() < deadline, "nothing was archived"
            time.sleep(0.1)
        assert len(list(archive.rglob("streams/**/*.json"))) >= BATCHES // 2
        server.process.kill()
        server.process.wait()
    url = f"file://{archive}/archive"
    assert "0 faults" in borzoi("archive", "verify", url)
    borzoi("archive", "restore", url, "--to", tmp_path / "back")
    with running_server({"SYSTEM_SEGMENT_SIZE": "8 KiB"}, directory=tmp_path / "back") as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            polled: Any = client.call(poll_of(len(payloads)))
    found = [message.payload for message in decode_messages(polled.messages)]
    assert len(found) == BATCHES * PER_BATCH, "two batches in each of the sealed segments"
    assert found == payloads[: len(found)]
