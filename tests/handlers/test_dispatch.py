import asyncio
import logging
from asyncio import Future
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server, whole

from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.replies import DONE
from borzoi.handlers.scopes import everywhere
from borzoi.handlers.table import COMMANDS, Row
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.tokens import TokenInfo
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import ChangePassword, CreateUser, LoginUser
from borzoi.protocol.contract import Request, encode_payload
from borzoi.records.message import Message, encode_messages
from borzoi.security.permissions import Rule


async def test_an_unknown_code_is_an_invalid_command(server: EmbeddedServer) -> None:
    assert await server.connect().exchange(9999, b"") == (3, b"")


async def test_decoding_comes_before_the_question_who_asks(server: EmbeddedServer) -> None:
    client = server.connect()
    assert await client.exchange(Code.GET_STREAM, b"\x09\x01x") == (3, b"")
    assert await client.exchange(Code.GET_STREAM, b"\x02\x01x") == (40, b"")


async def test_a_stale_session_is_told_so_and_ends(server: EmbeddedServer) -> None:
    client = server.root()
    client.session.stale = True
    assert await client.exchange(Code.GET_STREAMS, b"") == (30, b"")
    assert client.session.closing


async def test_a_fault_of_ours_is_a_status_and_a_line_in_the_log(
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
    server.dispatcher = Dispatcher(server.services)
    logging.getLogger("borzoi").propagate = True
    assert await server.root().exchange(Code.PING, b"") == (1, b"")
    assert await server.root().exchange(Code.GET_ME, b"") == (1, b"")
    assert "ZeroDivisionError" in caplog.text


def test_only_what_needs_no_login_is_public(server: EmbeddedServer) -> None:
    public = {row.request.CODE for row in COMMANDS if server.dispatcher.is_public(row.request.CODE)}
    assert public == {Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}


async def test_an_answer_that_cannot_be_encoded_is_a_fault_of_ours_too(
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
    server.dispatcher = Dispatcher(server.services)
    assert (await server.root().exchange(Code.PING, b""))[0] != 0
    assert (await server.root().exchange(Code.GET_ME, b""))[0] != 0


async def test_a_login_nobody_waits_for_is_given_up_and_everything_else_is_finished(
    server: EmbeddedServer,
) -> None:
    dispatcher, root = server.dispatcher, server.root()
    session = server.connect().session
    login = encode_payload(LoginUser("iggy", "iggy"))
    asked = dispatcher.dispatch(session, Code.LOGIN_USER, memoryview(login))
    made = dispatcher.dispatch(
        root.session, Code.CREATE_STREAM, memoryview(encode_payload(CreateStream("s")))
    )
    assert isinstance(asked, Future)
    assert isinstance(made, Future)
    dispatcher.abandon(asked)
    dispatcher.abandon(made)
    await dispatcher.drain()
    await asyncio.wait({asked})
    assert asked.cancelled()
    assert whole(made.result())[:4] == bytes(4)
    assert session.user_id is None


@pytest.mark.parametrize(
    "request_", [CreateUser("bob", "secret"), ChangePassword(0, "iggy", "another")]
)
async def test_who_hangs_up_lets_nobody_wait_behind_its_passwords(
    server: EmbeddedServer, request_: Request
) -> None:
    dispatcher, root = server.dispatcher, server.root()
    payload = memoryview(encode_payload(request_))
    asked = dispatcher.dispatch(root.session, int(request_.CODE), payload)
    assert isinstance(asked, Future)
    dispatcher.abandon(asked)
    await asyncio.wait({asked})
    assert asked.cancelled()
    assert dispatcher.waiting == 0


async def test_draining_waits_for_appends_on_their_way_to_the_disk(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path, settings) as server:
        root = server.root()
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", "t", 1))
        indexes, body = encode_messages([Message(b"m")])
        request = SendMessages(
            "s", "t", Partitioning.partition(0), 1, memoryview(indexes), memoryview(body)
        )
        payload = memoryview(bytearray(encode_payload(request)))
        reply = server.dispatcher.dispatch(root.session, Code.SEND_MESSAGES, payload)
        assert isinstance(reply, Future)
        await server.dispatcher.drain()
        assert reply.result() == DONE
