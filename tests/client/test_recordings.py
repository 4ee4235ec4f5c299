"""The client against recorded exchanges of the published 0.8.0 server, in both colours and as HTTP.

A scripted server answers each request with what the real one said. The client has to send the very
bytes that were recorded, and to make values or the right exceptions of the answers.
"""

import json
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.support.golden import Exchange, read_exchanges
from tests.support.scripted_server import Asked, ScriptedServer

from borzoi.client import AsyncClient, Client
from borzoi.client.messages import Polled
from borzoi.client.options import Address, Options, Reconnection
from borzoi.client.transports.http import HttpWire
from borzoi.model.errors import BorzoiError
from borzoi.protocol.catalog import REQUESTS, decode_request, decode_response
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.contract import Listing, Request, Response
from borzoi.protocol.errors import error_of
from borzoi.protocol.framing import PREFIX_BYTES, encode_request, encode_response
from borzoi.protocol.rest.calls import match
from borzoi.protocol.rest.faults import HttpFault

GOLDEN = Path(__file__).parents[1] / "golden"

#: Larger frames are about limits of the server, which has its own tests.
FRAME_BYTES_MAX = 1 << 20


def request_of(exchange: Exchange) -> Request | None:
    """The request of an exchange, if it is one that a client of ours would send like this."""
    if exchange.code not in REQUESTS or exchange.status is None or exchange.closed_by_server:
        return None
    if exchange.quirk is not None and exchange.quirk.startswith("defect"):
        return None
    if sum(len(part) * times for part, times in exchange.runs) > FRAME_BYTES_MAX:
        return None
    frame = exchange.frame
    assert exchange.code is not None
    try:
        request = decode_request(exchange.code, frame[PREFIX_BYTES:])
        return request if encode_request(request) == frame else None
    except BorzoiError:
        return None  # recorded to see what the server says to it


@cache
def scenarios() -> dict[str, list[tuple[Exchange, Request]]]:
    found = {}
    for scenario, exchanges in groupby(read_exchanges(GOLDEN), lambda each: each.scenario):
        asked = [(each, request_of(each)) for each in exchanges]
        found[scenario] = [(each, request) for each, request in asked if request is not None]
    return {scenario: asked for scenario, asked in found.items() if asked}


@pytest.fixture(params=sorted(scenarios()))
def asked(request: pytest.FixtureRequest) -> list[tuple[Exchange, Request]]:
    return scenarios()[request.param]


@pytest.fixture
def real(asked: list[tuple[Exchange, Request]]) -> Iterator[ScriptedServer]:
    """Answers like the recorded server, to the requests that were recorded."""
    answers = iter(asked)

    def answer(heard: Asked) -> bytes:
        exchange, _ = next(answers)
        assert heard.payload == exchange.frame[PREFIX_BYTES:]
        assert exchange.status is not None
        return encode_response(exchange.status, exchange.payload)

    with ScriptedServer(answer) as server:
        yield server
        assert [each.code for each in server.asked] == [exchange.code for exchange, _ in asked]


def options_for(server: ScriptedServer) -> Options:
    # The client does not log in by itself, and does not try again when the session is over.
    return Options(
        (Address(*server.address),),
        reconnection=Reconnection(enabled=False),
        heartbeat_interval=0,
    )


def check_value(exchange: Exchange, answer: Response | None) -> None:
    """The value holds everything that the real server said."""
    kind = REQUESTS[exchange.code or 0].RESPONSE
    if kind is None or (not exchange.payload and not issubclass(kind, Listing)):
        assert answer is None
        return
    assert isinstance(answer, kind)
    if isinstance(answer, PolledMessages):
        polled = Polled.of(answer.partition_id, answer.current_offset, memoryview(answer.messages))
        assert len(polled) == answer.messages_count
        assert len([message.payload for message in polled]) == answer.messages_count


async def test_the_real_server_is_understood(asked, real: ScriptedServer) -> None:
    async with AsyncClient(options_for(real)) as client:
        for exchange, request in asked:
            if exchange.truncated:
                await client.call(request)
            elif exchange.status:
                with pytest.raises(type(error_of(exchange.status))) as caught:
                    await client.call(request)
                assert caught.value.code == exchange.status
            else:
                check_value(exchange, await client.call(request))


def test_the_real_server_is_understood_with_blocking_calls(asked, real: ScriptedServer) -> None:
    with Client(options_for(real)) as client:
        for exchange, request in asked:
            if exchange.truncated:
                client.call(request)
            elif exchange.status:
                with pytest.raises(type(error_of(exchange.status))) as caught:
                    client.call(request)
                assert caught.value.code == exchange.status
            else:
                check_value(exchange, client.call(request))


def test_nearly_all_of_the_recording_was_used() -> None:
    used = [exchange for asked in scenarios().values() for exchange, _ in asked]
    commands = {exchange.code for exchange in used}
    assert len(used) > 1800
    assert {int(code) for code in REQUESTS} - commands == set()


# ---- HTTP ---------------------------------------------------------------------------------------


def http_exchanges() -> Iterator[dict[str, Any]]:
    for line in (GOLDEN / "golden-http.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("request_body_rle") is None and row.get("response_body") is not None:
            yield row


def http_request(row: dict[str, Any]) -> Request | None:
    path, _, query = row["path"].partition("?")
    body = (row.get("request_body") or "").encode()
    headers = {name.lower(): value for name, value in (row.get("request_headers") or {}).items()}
    kind = headers.get("content-type", "application/json")
    try:
        request: Request = match(row["method"], path).request(query, kind, body, now=0)
    except (HttpFault, BorzoiError):
        return None
    return request if type(request) in REQUESTS.values() else None


def test_the_real_server_is_understood_over_http() -> None:
    used = 0
    for row in http_exchanges():
        request = http_request(row)
        if request is None:
            continue
        wire = HttpWire(Address("localhost", 3000))
        try:
            wire.outgoing([encode_request(request)])
        except BorzoiError:
            continue  # what the client would not say
        body = row["response_body"].encode()
        said = b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n" % (row["response_status"], len(body))
        space = wire.space()
        answer = said + body
        space[: len(answer)] = answer
        ((status, payload),) = wire.received(len(answer))
        used += 1
        if row["response_status"] < 300:
            assert not status, row
            decode_response(type(request), payload)
        else:
            assert status or not payload, row
    assert used > 100
