"""Every recorded HTTP exchange, replayed against running servers: the same answers.

Each scenario starts on an empty directory. Statuses, documents and headers are compared but for
what the recording calls volatile; sentences in plain text belong to the framework that said them,
so only their presence is. What differs on purpose is in ``tests/golden/differences.toml``, and an
entry there that is not needed is as much a fault as an answer that differs without one.
"""

import http.client
import json
import re
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import PATIENCE_SECONDS, WireClient

from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import LoginUser

pytestmark = pytest.mark.system

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINES = [json.loads(line) for line in (GOLDEN / "golden-http.jsonl").read_text().splitlines()]
SCENARIOS = list(dict.fromkeys(line["scenario"] for line in LINES))
DIFFERENCES = {
    (each["scenario"], step): each
    for each in tomllib.loads((GOLDEN / "differences.toml").read_text())["http"]
    for step in each["steps"]
}
SETTINGS = {"HTTP_ENABLED": "true", "HTTP_ADDRESS": "127.0.0.1:0"}

UPSTREAM_METRICS = {
    "http_requests": "counter",
    "streams": "gauge",
    "topics": "gauge",
    "partitions": "gauge",
    "segments": "gauge",
    "messages": "gauge",
    "users": "gauge",
    "clients": "gauge",
}


class Replay:
    """One scenario against one server."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._connection = http.client.HTTPConnection(
            *server.addresses["http"], timeout=PATIENCE_SECONDS
        )
        self._saved: dict[str, str] = {}
        self._beside: WireClient | None = None
        self.needed: set[tuple[str, int]] = set()

    def play(self, line: dict[str, Any]) -> Iterator[str]:
        """What differs from the recording without being listed."""
        self._prepare(line.get("note") or "")
        difference = DIFFERENCES.get((line["scenario"], line["n"]), {})
        if difference.get("not_sent"):
            self._needs(line)
            return
        status, headers, body = self._call(line)
        expected = difference.get("status", line["response_status"])
        if "status" in difference:
            self._needs(line)
        if status != expected:
            yield f"status {status} with {body[:200]!r}, recorded {line['response_status']}"
            return
        if expected != line["response_status"]:
            return
        yield from self._headers(line, headers)
        yield from self._body(line, difference, headers, body)
        for name, path in (line.get("save") or {}).items():
            self._saved[name] = str(at(json.loads(body), path))

    def _needs(self, line: dict[str, Any]) -> None:
        self.needed.add((line["scenario"], line["n"]))

    def _prepare(self, note: str) -> None:
        """A client over TCP where the recording had one beside it."""
        if note.startswith("precondition: a TCP client logged in"):
            self._beside = client = WireClient(self._server.tcp_address)
            client.call(LoginUser("iggy", "iggy"))
            client.call(CreateStream("s1"))
            client.call(CreateTopic("s1", "t1", 2))
            client.call(CreateConsumerGroup("s1", "t1", "g1"))
            client.call(JoinConsumerGroup("s1", "t1", "g1"))
        elif note.startswith("precondition: the TCP client disconnected"):
            assert self._beside is not None
            self._beside.close()
            self._wait_until_nobody_is_connected()

    def _wait_until_nobody_is_connected(self) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        headers = {"Authorization": f"Bearer {self._saved['root']}"}
        while time.monotonic() < until:
            self._connection.request("GET", "/clients", None, headers)
            if self._connection.getresponse().read() == b"[]":
                return
            time.sleep(0.01)

    def _filled(self, text: str) -> str:
        return re.sub(r"\{\{(\w+)\}\}", lambda found: self._saved[found[1]], text)

    def _call(self, line: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        body = line["request_body"]
        if line.get("request_body_rle"):
            body = "".join(text * count for text, count in line["request_body_rle"])
        sent = None if body is None else self._filled(body).encode()
        headers = {name: self._filled(text) for name, text in line["request_headers"].items()}
        self._connection.request(line["method"], self._filled(line["path"]), sent, headers)
        answer = self._connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()

    def _headers(self, line: dict[str, Any], headers: dict[str, str]) -> Iterator[str]:
        recorded = line["response_headers"]
        for name in recorded.keys() - set(line.get("volatile_headers", ())):
            if headers.get(name) != recorded[name]:
                yield f"header {name} is {headers.get(name)!r}, recorded {recorded[name]!r}"
        watched = {"content-type", "allow", "content-disposition", "vary"}
        for name, value in headers.items():
            if (name in watched or name.startswith("access-control-")) and name not in recorded:
                yield f"header {name}: {value} was not recorded"

    def _body(
        self,
        line: dict[str, Any],
        difference: dict[str, Any],
        headers: dict[str, str],
        body: bytes,
    ) -> Iterator[str]:
        kind = line["response_headers"].get("content-type", "")
        if line["volatile"] == "metrics":
            yield from metrics_faults(body.decode())
        elif kind == "application/zip":
            if not body.startswith(bytes.fromhex(line["response_body_note"].split()[-1])):
                yield f"this is no archive: {body[:10]!r}"
        elif kind == "application/json":
            recorded, found = json.loads(line["response_body"]), json.loads(body)
            volatile = [*line["volatile"], *difference.get("volatile", ())]
            if difference.get("part") == "reason":
                self._needs(line)
                if recorded["reason"] == found["reason"]:
                    yield "listed with other words, but they are the recorded ones"
                volatile.append("$.reason")
            elif difference.get("volatile"):
                self._needs(line)
            for path in volatile:
                erase(recorded, path)
                erase(found, path)
            if found != recorded:
                yield f"{found}, recorded {recorded}"
        elif line["response_status"] < 400 and kind:
            if body.decode() != line["response_body"]:
                yield f"{body!r}, recorded {line['response_body']!r}"
        elif bool(body) != bool(line["response_body"]):
            yield f"{body[:200]!r}, recorded {line['response_body']!r}"

    def close(self) -> None:
        self._connection.close()
        if self._beside is not None:
            self._beside.close()


def steps(path: str) -> list[str | int]:
    """``$[0].a.b`` and ``$.0.a`` as what to look up, one after the other."""
    found = re.findall(r"\[(\d+)\]|\.(\*|\w+)", path)
    return [int(index or name) if (index or name).isdigit() else name for index, name in found]


def at(value: Any, path: str) -> Any:
    for step in steps(path):
        value = value[step]
    return value


def erase(value: Any, path: str) -> None:
    *before, last = steps(path)
    try:
        for step in before:
            value = value[step]
        value[last] = "volatile"
    except (KeyError, IndexError, TypeError):
        return


def metrics_faults(text: str) -> Iterator[str]:
    families = {family.name: family.type for family in text_string_to_metric_families(text)}
    for name, kind in UPSTREAM_METRICS.items():
        if families.get(name) != kind:
            yield f"the metric {name} is {families.get(name)}, recorded {kind}"


@pytest.mark.parametrize("shards", [1, 3])
def test_every_scenario_is_answered_as_recorded(shards: int) -> None:
    faults, compared, needed = [], 0, set()
    settings = {**SETTINGS, "SYSTEM_SHARDING_CPU_ALLOCATION": str(shards)}
    for scenario in SCENARIOS:
        with running_server(settings) as server:
            replay = Replay(server)
            for line in LINES:
                if line["scenario"] == scenario:
                    compared += 1
                    faults += [
                        f"{scenario} {line['n']} ({line['step']}): {fault}"
                        for fault in replay.play(line)
                    ]
            needed |= replay.needed
            replay.close()
    assert not faults, "\n".join(faults)
    assert compared == len(LINES) == 385
    assert DIFFERENCES.keys() - needed == set(), "listed, but nothing needed it"
