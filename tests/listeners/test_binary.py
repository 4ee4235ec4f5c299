"""Frames in, frames out; what the commands do is tested in tests/handlers."""

import logging
from asyncio import Future
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server, sent, whole, with_topic

from borzoi.handlers.answers import NOTHING_DELIVERED, Delivery
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.scopes import everywhere
from borzoi.handlers.table import Row
from borzoi.listeners.binary import DONE, BinaryProtocol, RangesReply, encoded, failed, ok
from borzoi.metadata.permissions import Rule
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.tokens import TokenInfo
from borzoi.protocol.contract import encode_payload
from borzoi.storage.reading import Reading


def test_errors_carry_no_payload_and_answers_carry_their_length() -> None:
    assert bytes(8) == DONE == encoded(None)
    assert failed(1009) == (1009).to_bytes(4, "little") + bytes(4)
    assert ok(b"abc") == bytes(4) + b"\x03\0\0\0abc"
    assert encoded(TokenInfo("t", 7)) == ok(encode_payload(TokenInfo("t", 7)))


def test_a_delivery_without_files_is_one_piece() -> None:
    assert encoded(NOTHING_DELIVERED) == ok(bytes(16))
    delivery = Delivery(2, 41, Reading(40, 2, tail=[memoryview(b"ab"), memoryview(b"c")]))
    prefix = b"\2\0\0\0" + (41).to_bytes(8, "little") + b"\2\0\0\0"
    assert encoded(delivery) == ok(prefix + b"abc")


async def test_stored_messages_stay_in_their_file(server: EmbeddedServer) -> None:
    await with_topic(server)
    await sent(server, 3)
    poll = PollMessages(
        Consumer(ConsumerKind.CONSUMER, 1), "s", "t", 0, PollingStrategy.first(), 10
    )
    payload = memoryview(encode_payload(poll))
    reply = server.binary.respond(server.root().session, Code.POLL_MESSAGES, payload)
    assert isinstance(reply, RangesReply)
    stored = sum(part.length for part in reply.ranges)
    assert int.from_bytes(reply.head[4:8], "little") == 16 + stored


async def test_an_unknown_code_is_an_invalid_command(server: EmbeddedServer) -> None:
    assert await server.connect().exchange(9999, b"") == (3, b"")


async def test_decoding_comes_before_authentication(server: EmbeddedServer) -> None:
    client = server.connect()
    assert await client.exchange(Code.GET_STREAM, b"\x09\x01x") == (3, b"")
    assert await client.exchange(Code.GET_STREAM, b"\x02\x01x") == (40, b"")


async def test_what_is_missing_is_an_empty_answer_or_an_error(server: EmbeddedServer) -> None:
    client = server.root()
    assert await client.exchange(Code.GET_STREAM, b"\x02\x01x") == (0, b"")
    assert await client.exchange(Code.DELETE_STREAM, b"\x02\x01x") == (1009, b"")


@pytest.mark.parametrize("acknowledge", ["written", "synced"])
async def test_a_change_that_waits_for_the_disk_is_answered_through_a_future(
    tmp_path: Path, acknowledge: str
) -> None:
    settings = {"SYSTEM_STATE_ENFORCE_FSYNC": "true", "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge}
    async with embedded_server(tmp_path, settings) as server:
        root = server.root()
        payload = memoryview(encode_payload(CreateStream("s")))
        begun = server.binary.respond(root.session, Code.CREATE_STREAM, payload)
        assert isinstance(begun, Future)
        await server.dispatcher.drain()
        reply = server.binary.reply_to(root.session, Code.CREATE_STREAM, begun)
        assert whole(reply)[:4] == bytes(4)
        again = server.binary.respond(root.session, Code.CREATE_STREAM, payload)
        assert isinstance(again, Future)
        await server.dispatcher.drain()
        assert server.binary.reply_to(root.session, Code.CREATE_STREAM, again) == failed(1012)


async def test_a_fault_of_the_server_is_a_status_and_a_line_in_the_log(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: object, call: object) -> None:
        raise ZeroDivisionError

    async def broken_later(request: object, call: object) -> None:
        raise ZeroDivisionError

    rows = (
        Row(Ping, Rule.ANYONE, everywhere, broken),
        Row(GetMe, Rule.LOGGED_IN, everywhere, broken_later),
    )
    monkeypatch.setattr("borzoi.handlers.dispatch.COMMANDS", rows)
    server.binary = BinaryProtocol(Dispatcher(server.services))
    logging.getLogger("borzoi").propagate = True
    assert await server.root().exchange(Code.PING, b"") == (1, b"")
    assert await server.root().exchange(Code.GET_ME, b"") == (1, b"")
    assert caplog.text.count("Traceback") == 2
    assert "ZeroDivisionError" in caplog.text


async def test_an_answer_that_cannot_be_encoded_is_a_fault_of_the_server_too(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfit(request: object, call: object) -> object:
        return TokenInfo("x" * 300, 0)

    async def unfit_later(request: object, call: object) -> object:
        return TokenInfo("x" * 300, 0)

    rows = (
        Row(Ping, Rule.ANYONE, everywhere, unfit),
        Row(GetMe, Rule.LOGGED_IN, everywhere, unfit_later),
    )
    monkeypatch.setattr("borzoi.handlers.dispatch.COMMANDS", rows)
    server.binary = BinaryProtocol(Dispatcher(server.services))
    assert (await server.root().exchange(Code.PING, b""))[0] != 0
    assert (await server.root().exchange(Code.GET_ME, b""))[0] != 0
