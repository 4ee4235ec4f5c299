import logging

import pytest

from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.scopes import everywhere
from borzoi.handlers.table import COMMANDS, Row
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.security.permissions import Rule
from borzoi.testing.embedded import EmbeddedServer


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
