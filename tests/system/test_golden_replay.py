"""Every recorded exchange, replayed against a running server: the same statuses and bytes.

Each scenario starts on an empty directory with the settings it was recorded with. Deliberate
differences come from the one table, `tests/golden/differences.toml`.
"""

import json
import time
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.system import Clients
from borzoi.protocol.commands.tokens import Tokens
from borzoi.testing.server import running_server
from borzoi.testing.wire_client import ConnectionEnded, WireClient

pytestmark = pytest.mark.system

GOLDEN = Path(__file__).parent.parent / "golden"
LINES = [
    json.loads(line) for line in (GOLDEN / "golden-exchanges.jsonl").read_text().splitlines()
]
SCENARIOS: dict[str, list[dict]] = defaultdict(list)
for _line in LINES:
    SCENARIOS[_line["scenario"]].append(_line)
DIFFERENCES = {
    entry["seq"]: entry
    for entry in tomllib.loads((GOLDEN / "differences.toml").read_text())["difference"]
    if entry["file"] == "golden-exchanges.jsonl"
}

#: 0.8 ships a second node in its default file; borzoi ships none, so the recording's is given here.
SAMPLE_NODE = {
    "CLUSTER_NODE_OTHERS_0_NAME": "iggy-node-2",
    "CLUSTER_NODE_OTHERS_0_IP": "127.0.0.1",
    "CLUSTER_NODE_OTHERS_0_PORTS_TCP": "8091",
    "CLUSTER_NODE_OTHERS_0_PORTS_QUIC": "8081",
    "CLUSTER_NODE_OTHERS_0_PORTS_HTTP": "3001",
    "CLUSTER_NODE_OTHERS_0_PORTS_WEBSOCKET": "8093",
}


class Replay:
    """One scenario against one server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.connections: dict[str, WireClient] = {}
        self.answers: dict[int, bytes] = {}
        self.faults: list[str] = []
        self.compared = 0

    def play(self, line: dict) -> None:
        if line["command"] == "@close":
            self.connections.pop(line["conn"]).close()
            # The recording waited as well: leaving groups is not part of the exchange.
            time.sleep(0.3)
            return
        difference = DIFFERENCES.get(line["seq"], {})
        if difference.get("not_sent"):
            return
        if "sleep_before_ms" in line:
            time.sleep(line["sleep_before_ms"] / 1000)
        client = self.connections.get(line["conn"])
        if client is None:
            client = self.connections[line["conn"]] = WireClient(self.address)
        try:
            status, payload = client.exchange(self.request(line))
        except (ConnectionEnded, ConnectionResetError, BrokenPipeError):
            status, payload = None, b""
            self.connections.pop(line["conn"]).close()
        self.answers[line["n"]] = payload
        self.compare(line, difference, status, payload)
        if difference.get("what") == "closes" or (
            line.get("closed_by_server") and difference.get("what") != "answer"
        ):
            extra, closed = client.leftovers(2.0)
            if not closed:
                self.fault(line, "the connection was not closed")
            self.connections.pop(line["conn"], client).close()

    def request(self, line: dict) -> bytes:
        if line["request_hex"] is not None:
            frame = bytearray.fromhex(line["request_hex"])
        else:
            frame = bytearray().join(bytes.fromhex(part) * n for part, n in line["request_rle"])
        for substitution in line.get("subst", ()):
            start, end = substitution["from_range"]
            to_start, to_end = substitution["request_range"]
            frame[to_start:to_end] = self.answers[substitution["from_n"]][start:end]
        return bytes(frame)

    def compare(self, line: dict, difference: dict, status: int | None, payload: bytes) -> None:
        what = difference.get("what")
        wanted_status = line["response_status"]
        wanted = bytes.fromhex(line["response_payload_hex"] or "")
        volatile = line["volatile"]
        if what == "not_answered":
            wanted_status, wanted = None, b""
        elif what == "answer":
            wanted_status = difference["status"]
            wanted = bytes.fromhex(difference.get("payload", ""))
            volatile = difference.get("volatile", volatile if difference.get("payload") else [])
        self.compared += 1
        if status != wanted_status:
            self.fault(line, f"status {status}, recorded {wanted_status}")
        elif not same_payload(line, volatile, wanted, payload):
            self.fault(line, f"payload\n      {payload.hex()[:400]}\n      {wanted.hex()[:400]}")

    def fault(self, line: dict, text: str) -> None:
        self.faults.append(f"{line['seq']} ({line['command']}: {line['step']}): {text}")


def same_payload(line: dict, volatile: list | str, wanted: bytes, payload: bytes) -> bool:
    if volatile == "zip":
        return payload[:2] == b"PK"
    if volatile == "clients":
        return len(Clients.decode(Reader(payload)).clients) == len(
            Clients.decode(Reader(wanted)).clients
        )
    if volatile == "unordered":
        ours = {(token.name, bool(token.expiry_at)) for token in Tokens.decode(Reader(payload)).tokens}
        return ours == {
            (token.name, bool(token.expiry_at)) for token in Tokens.decode(Reader(wanted)).tokens
        }
    if volatile == "defect":
        return True
    if line["command"] == "get_stats":
        return payload[68:108] == wanted[68:108]
    ranges = volatile
    ours, theirs = bytearray(payload), bytearray(wanted)
    if len(ours) != len(theirs):
        return False
    for start, end in ranges:
        ours[start:end] = theirs[start:end] = b""
        ours[start:start] = theirs[start:start] = bytes(end - start)
    return ours == theirs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_server_answers_as_recorded(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = SCENARIOS[scenario]
    settings = {
        name.removeprefix("IGGY_"): value for name, value in lines[0].get("env", {}).items()
    }
    if scenario == "cluster":
        settings |= SAMPLE_NODE
    with running_server(settings) as server:
        replay = Replay(server.tcp_address)
        for line in lines:
            replay.play(line)
        for client in replay.connections.values():
            client.close()
        assert server.stop() == 0
    with capsys.disabled():
        print(f"\n{scenario}: {replay.compared - len(replay.faults)} of {replay.compared} exchanges")
    assert not replay.faults, "\n".join(replay.faults)
