import asyncio
import logging
from asyncio import Future
from pathlib import Path

import msgspec
import pytest
from tests.support.embedded import BROKEN_ROWS, EmbeddedServer, embedded_server, with_topic
from tests.support.polls import poll_of
from tests.support.sends import send_of

from borzoi.handlers.answers import Delivery
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.table import COMMANDS
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    BorzoiError,
    ClientNotFound,
    InvalidCommand,
    ServerError,
    StaleClient,
    StreamNameTaken,
    StreamNotFound,
    Unauthenticated,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import JoinConsumerGroup, LeaveConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStream, GetStreams, StreamInfo
from borzoi.protocol.commands.system import ClientDetails, GetMe, Ping
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.users import ChangePassword, CreateUser, LoginUser, LogoutUser
from borzoi.protocol.contract import Request
from borzoi.records.message import decode_messages


class Unknown(Ping, frozen=True):
    """A request that no row of the table is about."""


async def test_a_request_without_a_row_is_an_invalid_command(server: EmbeddedServer) -> None:
    with pytest.raises(InvalidCommand):
        server.dispatcher.perform(server.connect().session, Unknown())


async def test_an_answer_is_a_value_and_a_refusal_an_exception(server: EmbeddedServer) -> None:
    perform, session = server.dispatcher.perform, server.root().session
    assert perform(session, Ping()) is None
    me = perform(session, GetMe())
    assert isinstance(me, ClientDetails)
    assert me.client_id == session.client_id
    with pytest.raises(StreamNotFound):
        perform(session, GetStream("s"))
    created = perform(session, CreateStream("s"))
    assert isinstance(created, Future)
    assert isinstance(await created, StreamInfo)
    again = perform(session, CreateStream("s"))
    assert isinstance(again, Future)
    with pytest.raises(StreamNameTaken):
        await again
    with pytest.raises(Unauthenticated):
        perform(server.connect().session, GetMe())


async def test_a_poll_is_answered_with_where_its_messages_are(server: EmbeddedServer) -> None:
    await with_topic(server, messages=3)
    poll = poll_of(10)
    for request in (poll, msgspec.structs.replace(poll, auto_commit=True)):
        answer = server.dispatcher.perform(server.root().session, request)
        delivery = await answer if isinstance(answer, Future) else answer
        assert isinstance(delivery, Delivery)
        assert (delivery.partition_id, delivery.current_offset) == (0, 2)
        assert len(decode_messages(delivery.reading.materialise())) == 3


GROUP = Consumer(ConsumerKind.GROUP, "g")
ALONE = Consumer(ConsumerKind.CONSUMER, "c")


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (JoinConsumerGroup("s", "t", "g"), StaleClient),
        (LeaveConsumerGroup("s", "t", "g"), StaleClient),
        (PollMessages(GROUP, "s", "t", None, PollingStrategy.next(), 1), StaleClient),
        (StoreConsumerOffset(GROUP, "s", "t", 0, 0), StaleClient),
        (DeleteConsumerOffset(GROUP, "s", "t", 0), StaleClient),
        (GetMe(), ClientNotFound),
        (LogoutUser(), ClientNotFound),
        (LoginUser("iggy", "iggy"), ClientNotFound),
        (LoginWithPersonalAccessToken("x" * 44), ClientNotFound),
        (GetStreams(), None),
        (Ping(), None),
        (PollMessages(ALONE, "s", "t", 0, PollingStrategy.first(), 1), None),
        (StoreConsumerOffset(ALONE, "s", "t", 0, 0), None),
    ],
)
async def test_a_stale_session_goes_on_except_for_what_needs_its_groups_or_its_registration(
    server: EmbeddedServer, request_: Request, refusal: type[BorzoiError] | None
) -> None:
    await with_topic(server, messages=1)
    client = server.root()
    client.session.stale = True
    if refusal is None:
        await client.call(request_)
    else:
        with pytest.raises(refusal):
            server.dispatcher.perform(client.session, request_)
    assert client.session.closing is (refusal is not None)


async def test_a_fault_of_the_server_is_logged_and_raised_as_an_error_with_a_status(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("borzoi.handlers.dispatch.COMMANDS", BROKEN_ROWS)
    dispatcher, session = Dispatcher(server.services), server.root().session
    monkeypatch.setattr(logging.getLogger("borzoi"), "propagate", True)
    with pytest.raises(ServerError) as at_once:
        dispatcher.perform(session, Ping())
    answer = dispatcher.perform(session, GetMe())
    assert isinstance(answer, Future)
    with pytest.raises(ServerError) as later:
        await answer
    assert at_once.value.code == later.value.code == 1
    # A record may reach the handler twice, when another test gave the logger one as well.
    failures = {one.getMessage(): one.exc_text for one in caplog.records if one.exc_info}
    assert len(failures) == 2
    assert all("ZeroDivisionError" in str(text) for text in failures.values())


def test_only_what_needs_no_login_is_public(server: EmbeddedServer) -> None:
    public = {row.request.CODE for row in COMMANDS if server.dispatcher.is_public(row.request.CODE)}
    assert public == {Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}


async def test_an_abandoned_login_is_cancelled_and_everything_else_is_finished(
    server: EmbeddedServer,
) -> None:
    dispatcher, root = server.dispatcher, server.root()
    session = server.connect().session
    asked = dispatcher.perform(session, LoginUser("iggy", "iggy"))
    made = dispatcher.perform(root.session, CreateStream("s"))
    assert isinstance(asked, Future)
    assert isinstance(made, Future)
    dispatcher.abandon(asked)
    dispatcher.abandon(made)
    await dispatcher.drain()
    await asyncio.wait({asked})
    assert asked.cancelled()
    assert isinstance(made.result(), StreamInfo)
    assert session.user_id is None


@pytest.mark.parametrize(
    "request_", [CreateUser("bob", "secret"), ChangePassword(0, "iggy", "another")]
)
async def test_a_disconnected_client_does_not_delay_the_logins_of_others(
    server: EmbeddedServer, request_: Request
) -> None:
    dispatcher, root = server.dispatcher, server.root()
    asked = dispatcher.perform(root.session, request_)
    assert isinstance(asked, Future)
    assert dispatcher.pending() == (1, 0, 0)
    dispatcher.abandon(asked)
    await asyncio.wait({asked})
    assert asked.cancelled()
    assert dispatcher.pending() == (0, 0, 0)


async def test_draining_waits_for_appends_on_their_way_to_the_disk(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path, settings) as server:
        root = (await with_topic(server)).root()
        answer = server.dispatcher.perform(root.session, send_of(b"m"))
        assert isinstance(answer, Future)
        await server.dispatcher.drain()
        assert answer.done()
        assert answer.result() is None
