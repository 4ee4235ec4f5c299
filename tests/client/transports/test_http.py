"""Frames as calls of the HTTP API: what it has, what it has not, and what else may answer."""

from typing import Any

import pytest
from tests.support.wires import fed

from borzoi.client import AsyncClient, NewMessage
from borzoi.client.options import Address
from borzoi.client.transports.http import HttpWire
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    ConnectionLost,
    FeatureUnavailable,
    InvalidCredentials,
    InvalidFormat,
    InvalidMessagesSize,
    InvalidVersion,
    StreamNotFound,
    Unauthenticated,
)
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.commands.groups import JoinConsumerGroup, LeaveConsumerGroup
from borzoi.protocol.commands.messages import PolledMessages, PollMessages
from borzoi.protocol.commands.streams import GetStream, GetStreams
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.users import LoginUser, LogoutUser
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.framing import encode_request
from borzoi.protocol.rest.routes import ROUTES

#: What only a session can ask for.
NOT_OVER_HTTP: set[Any] = {GetMe, JoinConsumerGroup, LeaveConsumerGroup}
ALICE = LoginUser("alice", "secret")


def asked(wire: HttpWire, request: Request) -> bytes:
    return b"".join(wire.outgoing([encode_request(request)]))


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.fixture
def wire() -> HttpWire:
    return HttpWire(Address("localhost", 3000))


def test_every_command_has_a_route_or_needs_a_session() -> None:
    routed = {route.request for route in ROUTES}
    assert {each for each in REQUESTS.values() if each not in routed} == NOT_OVER_HTTP


@pytest.mark.parametrize(
    "request_",
    [GetMe(), JoinConsumerGroup(1, 1, "g"), LeaveConsumerGroup(1, 1, "g")],
    ids=lambda request: type(request).__name__,
)
def test_what_needs_a_session_is_refused_in_one_sentence(wire: HttpWire, request_) -> None:
    with pytest.raises(FeatureUnavailable, match="connect by TCP, WebSocket or QUIC"):
        asked(wire, request_)
    # Nothing was sent, so the next answer is that of the next request.
    asked(wire, Ping())
    assert fed(wire, answer(b"pong")) == [(0, b"")]


def test_a_group_cannot_poll(wire: HttpWire) -> None:
    poll = PollMessages(Consumer(ConsumerKind.GROUP, "g"), 1, 1, 0, PollingStrategy.first(), 1)
    with pytest.raises(FeatureUnavailable, match="no sessions"):
        asked(wire, poll)


@pytest.mark.parametrize("step", [1, 10, 1000])
def test_answers_come_in_the_order_of_the_requests(wire: HttpWire, step: int) -> None:
    for request in (Ping(), GetStreams(), GetStream("s")):
        asked(wire, request)
    missing = b'{"id":404,"code":"not_found","reason":"Resource not found","field":null}'
    stream = answer(b"pong") + answer(b"[]") + answer(missing, "404 Not Found")
    assert fed(wire, stream, step) == [(0, b""), (0, b""), (0, b"")]


def test_the_token_of_a_login_is_shown_from_then_on(wire: HttpWire) -> None:
    assert b"Authorization" not in asked(wire, ALICE)
    body = b'{"user_id":7,"access_token":{"token":"abc","expiry":1}}'
    ((status, payload),) = fed(wire, answer(body))
    assert (status, payload) == (0, (7).to_bytes(4, "little"))
    assert b"\r\nAuthorization: Bearer abc\r\n" in asked(wire, LogoutUser())
    assert fed(wire, answer(b"", "204 No Content")) == [(0, b"")]
    assert b"Authorization" not in asked(wire, Ping())


def test_an_empty_poll_names_its_partition(wire: HttpWire) -> None:
    poll = PollMessages(Consumer(ConsumerKind.CONSUMER, 1), 1, 1, 5, PollingStrategy.first(), 1)
    asked(wire, poll)
    body = b'{"partition_id":0,"current_offset":0,"count":0,"messages":[]}'
    expected = encode_payload(PolledMessages(5, 0, 0, b""))
    assert fed(wire, answer(body)) == [(0, expected)]


def test_faults_keep_their_status_and_say_why(wire: HttpWire) -> None:
    asked(wire, ALICE)
    body = b'{"id":42,"code":"invalid_credentials","reason":"not you","field":null}'
    assert fed(wire, answer(body, "400 Bad Request")) == [(42, b"not you")]
    asked(wire, GetStreams())
    assert fed(wire, answer(b"", "401 Unauthorized"))[0][0] == 40
    asked(wire, GetStreams())
    assert fed(wire, answer(b"", "413 Payload Too Large"))[0][0] == 4036
    asked(wire, GetStreams())
    assert fed(wire, answer(b"bad gateway", "502 Bad Gateway")) == [(300, b"HTTP 502: bad gateway")]


@pytest.mark.parametrize("data", [b"\x08\0\0\0\0\0\0\0", b"SSH-2.0-OpenSSH\r\n"])
def test_what_does_not_speak_http_is_told(wire: HttpWire, data: bytes) -> None:
    asked(wire, Ping())
    with pytest.raises(InvalidVersion, match="localhost:3000 does not speak HTTP"):
        fed(wire, data)


def test_a_document_that_is_none_is_told(wire: HttpWire) -> None:
    asked(wire, GetStreams())
    with pytest.raises(InvalidVersion, match="cannot read the answer"):
        fed(wire, answer(b"{"))


def test_a_server_may_say_that_it_closes(wire: HttpWire) -> None:
    asked(wire, Ping())
    assert wire.is_open
    assert fed(wire, answer(b"pong\r\n").replace(b"\r\n", b"\r\nconnection: close\r\n", 1)) == [
        (0, b"")
    ]
    assert not wire.is_open


def test_an_answer_that_nobody_asked_for_is_dropped(wire: HttpWire) -> None:
    assert fed(wire, answer(b"", "408 Request Timeout")) == []


# ---- against a server ---------------------------------------------------------------------------


@pytest.fixture
def transport() -> str:
    return "http"


async def test_a_consumer_reads_to_the_end_and_waits_there(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.ensure_topic("http-read/t", partitions=2)
        await client.send_messages("http-read/t", ["a", "b", "c"], partition=1)
        async with client.consumer("http-read/t", name="reader", follow=False) as consumer:
            assert [message.text() async for message in consumer] == ["a", "b", "c"]
            await client.send_messages("http-read/t", ["d"], partition=1)
            # The end is not taken for a purge, although empty answers do not name it.
            assert [message.text() async for message in consumer] == ["d"]
            await client.purge_topic("http-read/t")
            await client.send_messages("http-read/t", ["e"], partition=1)
            assert [message.text() async for message in consumer] == ["e"]
        await client.delete_stream("http-read")


async def test_a_group_is_refused(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.ensure_topic("http-group/t")
        with pytest.raises(FeatureUnavailable):
            async with client.consumer("http-group/t", group="g"):
                pass
        await client.delete_stream("http-group")


async def test_faults_are_those_of_every_transport(url: str) -> None:
    with pytest.raises(InvalidCredentials):
        async with AsyncClient(url.replace("iggy:iggy", "iggy:wrong")):
            pass
    async with AsyncClient(url.replace("iggy:iggy@", "")) as client:
        with pytest.raises(Unauthenticated):
            await client.get_streams()
    async with AsyncClient(url) as client:
        with pytest.raises(StreamNotFound, match="nowhere"):
            await client.delete_stream("nowhere")
        with pytest.raises(InvalidFormat, match="at least one byte"):
            await client.send_messages("a/b", [b""])


async def test_a_body_that_is_too_large_is_refused(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.ensure_topic("http-large/t")
        # The server hangs up on who goes on sending, so its answer may be lost.
        with pytest.raises((InvalidMessagesSize, ConnectionLost)):
            await client.send_messages("http-large/t", [bytes(1_600_000)])
        await client.send_messages("http-large/t", [NewMessage("a", headers={"k": 1}, id=5)])
        (message,) = await client.poll_messages("http-large/t", partition=0, start=0)
        assert (message.id, message.headers) == (5, {"k": 1})
        await client.delete_stream("http-large")
