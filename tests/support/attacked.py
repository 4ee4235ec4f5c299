"""Servers to be attacked; the attackers are programs of their own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.certificates import trusting
from tests.support.sends import send_frame
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.topics import Compression
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
#: What is stored for a long poll.
BATCHES = 64
BATCH_MESSAGES = 250
MESSAGES = BATCHES * BATCH_MESSAGES
PAYLOAD_BYTES = 4000
PATIENCE_SECONDS = 120.0


@contextmanager
def server_with_topic(
    settings: dict[str, str] | None = None, compression: Compression = Compression.NONE
) -> Iterator[RunningServer]:
    """A server with an empty topic s/t of one partition."""
    with running_server(settings) as server:
        with root(server) as client:
            client.call(CreateStream("s"))
            client.call(CreateTopic("s", "t", 1, compression))
        yield server


@contextmanager
def server_with_messages(
    kind: str, settings: dict[str, str] | None = None
) -> Iterator[RunningServer]:
    """A server with 64 MB of messages that must change on their way out: encrypted or zstd."""
    chosen = {"SYSTEM_SEGMENT_SIZE": "8 MiB", **(settings or {})}
    if kind == "encrypted":
        chosen |= {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": KEY}
    compression = Compression.ZSTD if kind == "zstd" else Compression.NONE
    with server_with_topic(chosen, compression) as server:
        fill(server)
        if kind == "zstd":
            wait_for_compression(server)
        yield server


def root(server: RunningServer) -> WireClient:
    """A client that is logged in, with TLS where the server speaks it."""
    client = WireClient(server.tcp_address)
    if server.environment.get("BORZOI_TCP_TLS_ENABLED") == "true":
        client._sock = trusting().wrap_socket(client._sock)
    client.login()
    return client


def fill(server: RunningServer) -> None:
    text = b"some words that repeat, as words do; " * 200
    frame = send_frame(*(text[number:][:PAYLOAD_BYTES] for number in range(BATCH_MESSAGES)))
    with root(server) as client:
        for _ in range(BATCHES):
            assert client.exchange(frame) == (0, b"")


def wait_for_compression(server: RunningServer) -> None:
    """All segments but the open one have a twin in the place of their log."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(list(server.directory.glob("streams/**/*.log"))) > 1:
        assert time.monotonic() < until, "the segments were never compressed"
        time.sleep(0.1)
