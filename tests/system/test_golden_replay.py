"""Every recorded exchange, replayed against running servers: the same statuses and bytes.

Each scenario starts on an empty directory with the settings it was recorded with. What differs on
purpose is in the one table, `tests/golden/differences.toml`; an entry there that is not needed is
as much a fault as an answer that differs without one. All scenarios are one test, because only
then can it be said that nothing in the table is left over; `BORZOI_TEST_SCENARIOS` (names, with
spaces between them) picks some while working on one.
"""

import io
import os
import struct
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.support.golden import (
    EXCHANGES,
    Difference,
    Differences,
    Exchange,
    What,
    read_differences,
    read_exchanges,
)
from tests.support.server import running_server
from tests.support.wire_client import PATIENCE_SECONDS, ConnectionEnded, WireClient

from borzoi.model.errors import BorzoiError
from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.streams import DeleteStream
from borzoi.protocol.commands.system import Clients, GetClients, Ping
from borzoi.protocol.commands.tokens import Tokens
from borzoi.protocol.framing import encode_request
from borzoi.records.checksum import checksum
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

#: Which bytes of a payload vary by run, or a word for how to compare it.
Volatile: TypeAlias = str | tuple[tuple[int, int], ...]

#: Servers at work at the same time; most of the time of a scenario is waiting.
AT_ONCE = 3

#: How often is looked for what happens by itself.
LOOK_AGAIN_SECONDS = 0.05

PING = encode_request(Ping())
GET_CLIENTS = encode_request(GetClients())
POLLED_PREFIX_BYTES = 16
CLOSED = (ConnectionEnded, ConnectionResetError, BrokenPipeError)

#: What a replay knows about and answers for; the others are about reading and writing frames.
KINDS = (What.ANSWER, What.ANSWERED_ONCE, What.CLOSES, What.NOT_ANSWERED)

#: TCP, QUIC, HTTP and WebSocket as the recorded server had them in its answers about the cluster. A
#: replay binds a free port and only that one, so these bytes are not compared.
DEFAULT_PORTS = struct.pack("<4H", 8090, 8080, 3000, 8092)

#: Scenarios in which a step must come before something happens by itself: the recording was made on
#: an idle machine, so here that happens later.
LATER: Mapping[str, Mapping[str, str]] = {
    "heartbeat": {"HEARTBEAT_INTERVAL": "8 s"},
    "group_timeout": {"CONSUMER_GROUP_REBALANCING_TIMEOUT": "10 s"},
}

#: The same for a token, whose time is in the request that creates it: where that is, its time as
#: recorded and its time here, in seconds.
SHORT_TOKEN = ("pats", "one second")
TOKEN_SECONDS_RECORDED, TOKEN_SECONDS = 1, 10

#: A question that was asked after a pause, because the answer changes by itself.
QUESTION = "get_consumer_group"


class Replay:
    """One scenario against one server."""

    def __init__(self, address: tuple[str, int], differences: Differences, shards: int) -> None:
        self._address = address
        self._shards = shards
        self._differences = differences
        self._connections: dict[str, WireClient] = {}
        self._answers: dict[int, bytes] = {}
        #: Who alone keeps its session alive; None while all do.
        self._pinging: str | None = None
        self.faults: list[str] = []
        self.compared = 0

    def play(self, exchange: Exchange) -> None:
        if exchange.closes:
            gone = self._connections.pop(exchange.connection, None)
            if gone is not None:
                port = gone.address[1]
                gone.close()
                if self._shards > 1:
                    self._settle_everywhere(port)
            self._settle()
            return
        answer, once, closes, silent = (
            self._differences.find(EXCHANGES, exchange.seq, kind) for kind in KINDS
        )
        if answer is not None and answer.not_sent:
            return
        self._wait(exchange)
        client = self._connections.get(exchange.connection)
        if client is None:
            client = self._connections[exchange.connection] = WireClient(self._address)
        self.compared += 1
        try:
            status, payload = self._ask(exchange, answer, client)
        except CLOSED:
            if silent is None:
                self._fault(exchange, "the connection is closed")
            # A client whose connection is closed opens another one.
            self._connections.pop(exchange.connection).close()
            return
        if silent is not None:
            self._fault(exchange, f"answered with status {status} although listed as not answered")
        self._answers[exchange.n] = payload
        self._compare(exchange, answer, status, payload)
        if once is not None and not exchange.extra:
            self._fault(exchange, "listed as answered once, which is what was recorded")
        if closes is not None:
            self._expect_close(exchange, client)
        elif exchange.closed_by_server and answer is None:
            self._expect_close(exchange, client)
            self._connections.pop(exchange.connection).close()

    def finish(self) -> None:
        """Every connection that is still open is in step: nothing arrived without a request."""
        for name, client in self._connections.items():
            try:
                if client.exchange(PING) != (0, b""):
                    self.faults.append(f"connection {name} is out of step in the end")
            except (*CLOSED, TimeoutError):
                continue
            finally:
                client.close()

    def _wait(self, exchange: Exchange) -> None:
        """Let pass, or happen, what the recording paused for."""
        if exchange.scenario == "heartbeat":
            self._keep_alive(exchange)
        elif exchange.scenario == SHORT_TOKEN[0] and exchange.sleep_before_ms:
            longer = TOKEN_SECONDS - TOKEN_SECONDS_RECORDED
            time.sleep(exchange.sleep_before_ms / 1000 + longer)
        elif exchange.command != QUESTION:
            time.sleep(exchange.sleep_before_ms / 1000)

    def _keep_alive(self, exchange: Exchange) -> None:
        """All clients ping until the recording pauses, then only those that ping there, until the
        server has dropped the others: no client is dropped because this process had no turn."""
        for name, client in self._connections.items():
            if self._pinging in (None, name):
                client.exchange(PING)
        if not exchange.sleep_before_ms:
            return
        self._pinging = exchange.connection
        lively = self._connections[self._pinging]
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            lively.exchange(PING)
            if len(Clients.decode(Reader(lively.exchange(GET_CLIENTS)[1])).clients) == 1:
                return
            time.sleep(LOOK_AGAIN_SECONDS)

    def _ask(
        self, exchange: Exchange, difference: Difference | None, client: WireClient
    ) -> tuple[int, bytes]:
        """Status and payload; asked again while what the recording paused for has not happened."""
        status, payload = client.exchange(self._request(exchange))
        if exchange.sleep_before_ms and exchange.command == QUESTION:
            until = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < until and not is_wanted(exchange, difference, status, payload):
                time.sleep(LOOK_AGAIN_SECONDS)
                status, payload = client.exchange(self._request(exchange))
        return status, payload

    def _settle(self) -> None:
        """Wait until the server has noticed a close: three turns of its loop have passed."""
        watcher = WireClient(self._address)
        for _ in range(3):
            watcher.exchange(PING)
        watcher.close()

    def _settle_everywhere(self, port: int) -> None:
        """The same where another shard may have had the connection: until none lists the client,
        and what follows from that has had its turn, which a change that is refused comes after."""
        with WireClient(self._address) as watcher:
            try:
                watcher.login()
            except BorzoiError:
                return  # the scenario has another password by now
            until = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < until:
                clients = Clients.decode(Reader(watcher.exchange(GET_CLIENTS)[1])).clients
                if not any(one.address.endswith(f":{port}") for one in clients):
                    break
                time.sleep(LOOK_AGAIN_SECONDS)
            watcher.exchange(encode_request(DeleteStream(4000)))

    def _request(self, exchange: Exchange) -> bytes:
        frame = bytearray(exchange.frame)
        for (start, end), from_n, (from_start, from_end) in exchange.substitutions:
            frame[start:end] = self._answers[from_n][from_start:from_end]
        if (exchange.scenario, exchange.step) == SHORT_TOKEN:
            recorded, ours = (
                struct.pack("<Q", seconds * 1_000_000)
                for seconds in (TOKEN_SECONDS_RECORDED, TOKEN_SECONDS)
            )
            assert frame.endswith(recorded)
            frame[-len(ours) :] = ours
        return bytes(frame)

    def _expect_close(self, exchange: Exchange, client: WireClient) -> None:
        extra, closed = client.leftovers(PATIENCE_SECONDS)
        if extra or not closed:
            self._fault(exchange, f"closed: {closed}, and sent {extra.hex()!r} before that")

    def _compare(
        self, exchange: Exchange, difference: Difference | None, status: int, payload: bytes
    ) -> None:
        as_recorded = is_wanted(exchange, None, status, payload)
        if difference is None:
            if not as_recorded:
                self._fault(exchange, _unlike(status, payload, exchange.status, exchange.payload))
            return
        if as_recorded and exchange.volatile != "defect":
            self._fault(exchange, "answered as recorded although listed as different")
        if not is_wanted(exchange, difference, status, payload):
            wanted = difference.payload or b""
            self._fault(exchange, _unlike(status, payload, difference.status, wanted))

    def _fault(self, exchange: Exchange, text: str) -> None:
        where = f"{exchange.scenario} {exchange.seq} {exchange.connection}"
        self.faults.append(f"{where} ({exchange.command}: {exchange.step}): {text}")


def _unlike(status: int, payload: bytes, wanted_status: int | None, wanted: bytes) -> str:
    if status != wanted_status:
        return f"status {status}, not {wanted_status}; payload {payload.hex()[:200]!r}"
    return f"payload\n      {payload.hex()[:600]}\n      {wanted.hex()[:600]}"


def is_wanted(
    exchange: Exchange, difference: Difference | None, status: int, payload: bytes
) -> bool:
    """Whether it is the answer that was recorded, or the one that differs from it on purpose."""
    wanted_status, wanted, volatile = exchange.status, exchange.payload, exchange.volatile
    if difference is not None:
        wanted_status, wanted = difference.status, difference.payload or b""
        if difference.volatile is not None:
            volatile = difference.volatile
    return status == wanted_status and same_payload(exchange, wanted, payload, volatile)


def same_payload(exchange: Exchange, wanted: bytes, payload: bytes, volatile: Volatile) -> bool:
    """Whether the payload is the one wanted, as far as it can be compared."""
    if isinstance(volatile, str):
        return COMPARISONS[volatile](wanted, payload)
    if exchange.command == "get_stats" and wanted and payload:
        # The numbers of things; what surrounds them is about the machine.
        return payload[68:108] == wanted[68:108]
    if len(payload) != len(wanted):
        return False
    ours, theirs = bytearray(payload), bytearray(wanted)
    ranges = [*volatile]
    if exchange.command == "get_cluster_metadata" and DEFAULT_PORTS in wanted:
        ranges.append((at := wanted.index(DEFAULT_PORTS), at + len(DEFAULT_PORTS)))
    for start, end in ranges:
        ours[start:end] = theirs[start:end] = bytes(end - start)
    if exchange.command == "poll_messages" and exchange.scenario != "encryption":
        return ours == theirs and has_right_checksums(payload)
    return ours == theirs


def has_right_checksums(payload: bytes) -> bool:
    """They vary by run, because the timestamp does, but they can be computed."""
    stored, position = payload[POLLED_PREFIX_BYTES:], 0
    for message in decode_messages(stored):
        size = 64 + len(message.payload) + len(message.encoded_headers)
        if checksum(stored[position + 8 : position + size]) != message.checksum:
            return False
        position += size
    return True


def same_clients(wanted: bytes, payload: bytes) -> bool:
    """In any order; id and address vary by run."""

    def comparable(data: bytes) -> list[tuple[int, int, int]]:
        clients = Clients.decode(Reader(data)).clients
        return sorted(
            (-1 if one.user_id is None else one.user_id, one.transport, one.consumer_groups_count)
            for one in clients
        )

    return comparable(wanted) == comparable(payload)


def same_tokens(wanted: bytes, payload: bytes) -> bool:
    """In any order; the time at which one expires varies by run."""

    def comparable(data: bytes) -> set[tuple[str, bool]]:
        tokens = Tokens.decode(Reader(data)).tokens
        return {(one.name, one.expiry_at == 0) for one in tokens}

    return comparable(wanted) == comparable(payload)


def is_archive(wanted: bytes, payload: bytes) -> bool:
    return zipfile.is_zipfile(io.BytesIO(payload))


def same_bytes(wanted: bytes, payload: bytes) -> bool:
    return wanted == payload


COMPARISONS: Mapping[str, Callable[[bytes, bytes], bool]] = {
    "zip": is_archive,
    "clients": same_clients,
    "unordered": same_tokens,
    "defect": same_bytes,
}


def scenarios() -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = defaultdict(list)
    for exchange in read_exchanges(GOLDEN):
        found[exchange.scenario].append(exchange)
    picked = os.environ.get("BORZOI_TEST_SCENARIOS", "").split()
    return {name: lines for name, lines in found.items() if name in picked or not picked}


def replay(lines: list[Exchange], differences: Differences, shards: int) -> Replay:
    settings = {name.removeprefix("IGGY_"): value for name, value in lines[0].environment.items()}
    settings |= LATER.get(lines[0].scenario, {})
    settings["SYSTEM_SHARDING_CPU_ALLOCATION"] = str(shards)
    with running_server(settings) as server:
        played = Replay(server.tcp_address, differences, shards)
        for exchange in lines:
            try:
                played.play(exchange)
            except TimeoutError:
                played.faults.append(f"{exchange.scenario} {exchange.seq}: no answer in time")
                break
        played.finish()
        if server.stop() != 0:
            played.faults.append(f"{lines[0].scenario}: the server ended badly: {server.output}")
    return played


@pytest.mark.parametrize("shards", [1, 3])
def test_the_server_answers_as_recorded(capsys: pytest.CaptureFixture[str], shards: int) -> None:
    differences, recorded = read_differences(GOLDEN), scenarios()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        played = list(
            threads.map(lambda lines: replay(lines, differences, shards), recorded.values())
        )
    compared = sum(one.compared for one in played)
    faults = [fault for one in played for fault in one.faults]
    with capsys.disabled():
        print(
            f"\n{EXCHANGES} replayed, {shards} shards:"
            f" {compared - len(faults)} of {compared} exchanges"
        )
    assert not faults, "\n" + "\n".join(faults)
    if not os.environ.get("BORZOI_TEST_SCENARIOS"):
        assert differences.unneeded(EXCHANGES, *KINDS) == []
