import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.sends import send_of
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

READER = Consumer(ConsumerKind.CONSUMER, "reader")
BUFFERED = {"SYSTEM_PARTITION_ACKNOWLEDGE": "buffered"}
TRANSPORTS = ("TCP", "QUIC", "HTTP", "WEBSOCKET")


def send_one(client: WireClient) -> None:
    client.call(CreateStream("s"))
    client.call(CreateTopic("s", "t", 1))
    client.call(send_of(b"only in memory"))


def polled(server: RunningServer) -> list[bytes]:
    with WireClient(server.tcp_address) as client:
        client.login()
        found = client.call(PollMessages(READER, "s", "t", 0, PollingStrategy.first(), 9, False))
        return [message.payload for message in decode_messages(found.messages)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_that_stops_saves_what_was_only_in_memory(number: signal.Signals) -> None:
    with running_server(BUFFERED) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            send_one(client)
        server.process.send_signal(number)
        assert server.process.wait(60) == 0
        server.start()
        assert polled(server) == [b"only in memory"]


def test_other_signals_do_not_end_the_server() -> None:
    with running_server(BUFFERED) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            send_one(client)
            server.process.send_signal(signal.SIGHUP)
            server.process.send_signal(signal.SIGUSR1)
        assert polled(server) == [b"only in memory"]
        assert server.stop() == 0
        assert "SIGHUP is ignored" in server.output
        assert "thread MainThread:" in server.output
        assert "task saver:" in server.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("milliseconds", [0, 5, 10, 20, 40, 80, 160])
def test_a_stop_in_any_moment_of_a_start_is_a_stop(
    tmp_path: Path, milliseconds: int, number: signal.Signals
) -> None:
    """Also in the moment of becoming ready: the status is 0 and there is no traceback."""
    data = tmp_path / "data"
    environment = os.environ | {
        "BORZOI_SYSTEM_PATH": str(data),
        # The usual ports may be taken on this machine.
        **{
            f"BORZOI_{name}_ADDRESS": "127.0.0.1:0" for name in ("TCP", "QUIC", "HTTP", "WEBSOCKET")
        },
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "borzoi", "serve", "--with-default-root-credentials"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # From here on the signals are the server's own: before, Python is still loading it.
    while not (data / "borzoi.lock").exists():
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(milliseconds / 1000)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "Traceback" not in output


def test_too_few_descriptors_end_in_a_sentence(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["bash", "-c", f"ulimit -n 20; exec {sys.executable} -m borzoi serve"],
        env=os.environ | {"BORZOI_SYSTEM_PATH": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        "borzoi cannot start: the process may open 20 files and connections (ulimit -n);"
        " it takes at least 64\n"
    )
