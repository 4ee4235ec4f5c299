"""A real server under the load of a real client is killed repeatedly, and loses nothing that it
acknowledged.

In the end it is stopped, which is quick and changes nothing.

`BORZOI_CRASH_CYCLES` says how often it is killed, `BORZOI_CRASH_SEED` repeats a choice of moments.
"""

import os
import tempfile
import time
from pathlib import Path
from random import Random

import pytest
from tests.crash.promises import Client, check, work_a_while
from tests.support.server import running_server

from borzoi.server import exit_statuses
from borzoi.server.process import STOP_SECONDS_MAX

pytestmark = pytest.mark.crash

CYCLES = int(os.environ.get("BORZOI_CRASH_CYCLES", "3"))
SEED = int(os.environ.get("BORZOI_CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "little")

SETTINGS = {
    "SYSTEM_SEGMENT_SIZE": "1 MiB",  # so that kills hit segments that are being sealed
    "SYSTEM_PARTITION_VALIDATE_CHECKSUM": "true",
}


def test_a_killed_server_keeps_what_it_acknowledged(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("apache_iggy", reason="apache-iggy is not there: uv sync installs it")
    random = Random(SEED)
    with running_server(SETTINGS) as server:
        client = Client(server.tcp_address, SEED)
        try:
            for _ in range(CYCLES):
                work_a_while(client, random)
                server.kill()
                server.start()
            work_a_while(client, random)
            client.stop()
        except AssertionError as fault:
            fault.add_note(f"seed {SEED}\n{server.output[-5000:]}")
            raise
        finally:
            client.kill()
        # Once more, so that nothing of what follows is only in the memory of the last process.
        server.kill()
        server.start()
        found = check(server, client.promised)
        slowest = slowest_sync(server.directory)
        began = time.monotonic()
        assert server.stop() == exit_statuses.OK, server.output[-5000:]
        stopped_in = time.monotonic() - began
        slowest = max(slowest, slowest_sync(server.directory))
        # A disk may take its time for each file and folder, which is not the server's.
        synced = sum(1 for _ in server.directory.rglob("*"))
        assert stopped_in <= STOP_SECONDS_MAX + synced * slowest
        server.start()
        assert check(server, client.promised) == found
    promised = client.promised
    # Whose fault they are is not known; many of them would be worth finding out.
    assert promised.replaced <= 1 + CYCLES // 20
    with capsys.disabled():
        print(
            f"\n{CYCLES + 1} kills, {promised.messages} messages in"
            f" {sum(map(len, promised.batches.values()))} batches acknowledged, {found} found,"
            f" 0 lost, 0 invented; {len(promised.read)} read, {len(promised.committed)} commits,"
            f" {promised.made} streams created; {promised.repeated} calls repeated,"
            f" {promised.replaced} given up; stopped in {stopped_in:.1f} s (seed {SEED})"
        )


def slowest_sync(directory: Path) -> float:
    """How long the disk takes at the moment, in seconds."""
    times = []
    with tempfile.TemporaryFile(dir=directory.parent) as file:
        for _ in range(3):
            began = time.monotonic()
            file.write(b"x")
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - began)
    return max(times)
