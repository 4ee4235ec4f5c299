"""Data directories of the published server: taken over, served, and answered as it answers.

Each recorded directory is imported with the command people use, a server is started on it, and
the questions that were put to the published server after its restart are put to ours.
"""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY
from tests.support.interpreter import run_python
from tests.support.server import running_server
from tests.support.wire_client import WireClient

from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.tokens import Tokens

pytestmark = pytest.mark.system

SETTINGS = {
    "basic": {},
    "rotation": {
        "SYSTEM_SEGMENT_SIZE": "1 KiB",
        "SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1",
    },
    "encrypted": {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": GOLDEN_KEY},
    "metadata": {},
}
#: A topic that leaves expiry and size to the server reports a raw 0 there after a restart, which
#: is a defect of that server; ours reports what it means. (start, length) inside the topic.
SERVER_DEFAULTS = ((16, 8), (25, 8))
TOPIC_BYTES_MIN = 50


def imported(case: str, target: Path) -> None:
    key = ("--encryption-key", GOLDEN_KEY) if case == "encrypted" else ()
    source = GOLDEN_DATA / case / "data"
    run_python("-m", "borzoi", "import", "iggy", source, *key, "--to", target, check=True)


def comparable(step: dict, payload: bytes) -> object:
    """The payload without what may differ."""
    if step["command"] == "get_personal_access_tokens":
        return {(token.name, token.expiry_at) for token in Tokens.decode(Reader(payload)).tokens}
    compared = bytearray(payload)
    for start, end in step["volatile"]:
        compared[start:end] = bytes(end - start)
    topics = {"get_topic": [0]}.get(step["command"], [])
    if step["command"] == "get_stream":
        topics = list(_topic_positions(payload))
    for topic in topics:
        for start, length in SERVER_DEFAULTS:
            place = slice(topic + start, topic + start + length)
            if compared[place] in (bytes(length), b"\xff" * length):
                compared[place] = b"\xff" * length
    return bytes(compared)


def _topic_positions(payload: bytes):
    """Where the topics of a stream begin, in its answer."""
    position = 32 + 1 + payload[32]
    while position < len(payload):
        yield position
        position += TOPIC_BYTES_MIN + 1 + payload[position + TOPIC_BYTES_MIN]


@pytest.mark.parametrize("case", list(SETTINGS))
def test_an_imported_directory_is_answered_for_as_the_published_server_does(case, tmp_path):
    imported(case, tmp_path / "data")
    lines = (GOLDEN_DATA / case / "expected-after-restart.jsonl").read_text().splitlines()
    connections: dict[str, WireClient] = {}
    with (
        running_server(SETTINGS[case], directory=tmp_path / "data") as server,
        ExitStack() as opened,
    ):
        for step in map(json.loads, lines):
            if step["conn"] not in connections:
                connections[step["conn"]] = opened.enter_context(WireClient(server.tcp_address))
            status, payload = connections[step["conn"]].exchange(bytes.fromhex(step["request_hex"]))
            about = f"step {step['n']}, {step['command']} {step['step']}"
            assert status == step["response_status"], about
            expected = bytes.fromhex(step["response_payload_hex"])
            assert comparable(step, payload) == comparable(step, expected), about
        assert server.stop() == 0
    environment = {"BORZOI_SYSTEM_ENCRYPTION_KEY": GOLDEN_KEY, "PATH": ""}
    verified = run_python("-m", "borzoi", "log", "verify", tmp_path / "data", env=environment)
    assert verified.returncode == 0, verified.stdout
