"""Decode → authenticate → authorise → run → encode, in one place; the only catch-all.

A request that only touches a local partition runs to its answer inside `dispatch`; only a handler
that has to wait costs a task.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any

from borzoi.handlers.call import Call, Services
from borzoi.handlers.messages import poll_alone
from borzoi.handlers.replies import DONE, RangesReply, Reply, failed, ok
from borzoi.handlers.routes import PollRoutes, Route, SendRoutes
from borzoi.handlers.scopes import OWN
from borzoi.handlers.sessions import Session
from borzoi.handlers.table import COMMANDS, Row
from borzoi.memory.pool import NOWHERE
from borzoi.model.errors import (
    BorzoiError,
    ClientNotFound,
    InvalidCommand,
    NotFound,
    StaleClient,
    Unauthenticated,
    Unauthorized,
)
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import POLL_MOVING
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.values import strategy_of
from borzoi.records.batch import Batch
from borzoi.security.permissions import FREE, Rule, allows

log = logging.getLogger(__name__)

#: The status of a fault of ours; the log has the story.
INTERNAL_ERROR = 1
SEND_MESSAGES = int(Code.SEND_MESSAGES)
POLL_MESSAGES = int(Code.POLL_MESSAGES)
#: What clients do again and again.
OFTEN = frozenset({SEND_MESSAGES, POLL_MESSAGES})
EMPTY = DONE


class Dispatcher:
    """Turns frames into replies for the sessions of one shard."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._rows: Mapping[int, Row] = {int(row.request.CODE): row for row in COMMANDS}
        #: What was promised and is not answered yet, and of which command.
        self._begun: dict[Future[Reply], Row] = {}
        self._send_routes = SendRoutes()
        self._poll_routes = PollRoutes()

    def is_public(self, code: int) -> bool:
        """Whether the command is one that needs no login, or none at all, which nobody may give."""
        row = self._rows.get(code)
        return row is None or row.rule is Rule.ANYONE

    def dispatch(
        self, session: Session, code: int, payload: memoryview, *, at: int = NOWHERE
    ) -> "Reply | Future[Reply]":
        """The reply to a frame, or the promise of one.

        `at` says where the payload lies when that is memory of the pool: it will be used again.
        """
        row = self._rows.get(code)
        try:
            if code in OFTEN and session.user_id is not None and not session.stale:
                again = self._again(session, code, payload, at)
                if again is not None:
                    return again
            if row is None:
                raise InvalidCommand(f"no command has the code {code}")
            request = row.request.decode(Reader(payload))
            self._admit(row, session)
            request = row.prepare(request)
            call = self._call(row, request, session)
            call.permit(call)
            answer = row.run(request, call)
            if code == SEND_MESSAGES:
                self._send_routes.remember(session, payload, call)
            elif code == POLL_MESSAGES:
                self._poll_routes.remember(session, payload, request, call)
            if answer is None:
                return DONE
            if isinstance(answer, Coroutine):
                return self._started(row, session, answer)
            if isinstance(answer, Future):
                return self._promised(row, session, answer)
            return _encoded(answer)
        except Exception as fault:
            return _refusal(row, session, fault)

    def _again(
        self, session: Session, code: int, payload: memoryview, at: int
    ) -> "Reply | Future[Reply] | None":
        """The reply to a request that, but for its messages or its offset, was allowed before."""
        services = self._services
        revision = services.metadata.revision
        if code == SEND_MESSAGES:
            known = self._send_routes.find(session, payload, revision, at)
            return None if known is None else self._send_again(*known, session)
        route = self._poll_routes.find(session, payload, revision)
        if route is None:
            return None
        kind, value, count, auto_commit = POLL_MOVING.unpack_from(
            payload, len(payload) - POLL_MOVING.size
        )
        answer = poll_alone(
            services.partitions,
            route.namespace,
            route.consumer_id,
            strategy_of(kind, value),
            count,
            auto_commit != 0,
        )
        if isinstance(answer, bytes | RangesReply):
            return answer
        return self._started(self._rows[POLL_MESSAGES], session, answer)

    def _send_again(self, route: Route, batch: Batch, session: Session) -> "Reply | Future[Reply]":
        """A send like one that was allowed before, since when nothing changed."""
        services = self._services
        namespace = route.namespace or route.chosen(Call(session, services))
        waiter = services.partitions.append(namespace, batch, now=services.clock())
        if waiter is None:
            return DONE
        return self._promised(self._rows[SEND_MESSAGES], session, waiter)

    def _call(self, row: Row, request: Any, session: Session) -> Call:
        if session.user_id is None:
            return Call(session, self._services)
        asker = self._services.metadata.state.users.get(session.user_id)
        if row.rule in FREE:
            return Call(session, self._services, asker)
        return Call(session, self._services, asker, partial(_authorise, row, request))

    def _admit(self, row: Row, session: Session) -> None:
        if session.stale and row.request is not Ping:
            # A login would not help either: the session has left its groups and stays unknown.
            raise StaleClient("the session sent no ping for too long")
        if row.rule is Rule.ANYONE:
            return
        if session.user_id is None:
            raise Unauthenticated("log in first")

    def _started(
        self, row: Row, session: Session, waiting: Coroutine[Any, Any, Any]
    ) -> "Future[Reply]":
        task = asyncio.get_running_loop().create_task(_finished(row, session, waiting))
        self._begun[task] = row
        task.add_done_callback(self._begun.pop)
        # One that is given up before its first step would never be looked at.
        task.add_done_callback(lambda _: waiting.close())
        return task

    def _promised(self, row: Row, session: Session, waited: "Future[None]") -> "Future[Reply]":
        """The reply to a request whose work ends with a future: an append waiting for the disk."""
        reply: Future[Reply] = waited.get_loop().create_future()
        self._begun[reply] = row

        def settle(done: "Future[None]") -> None:
            del self._begun[reply]
            if done.cancelled():
                reply.cancel()
                return
            fault = done.exception()
            if fault is None:
                reply.set_result(DONE)
            elif isinstance(fault, Exception):
                reply.set_result(_refusal(row, session, fault))

        waited.add_done_callback(settle)
        return reply

    @property
    def waiting(self) -> int:
        """How many requests were begun and are not answered yet."""
        return len(self._begun)

    def abandon(self, reply: "Future[Reply]") -> None:
        """Nobody is left to take the reply. Who waits for a password to be hashed stops waiting:
        otherwise one could begin any number of them by hanging up after each, and all others
        would wait behind them. Anything else is finished all the same."""
        row = self._begun.get(reply)
        if row is not None and row.hashes:
            reply.cancel()

    async def drain(self) -> None:
        """Return when every request that was begun has been answered; logins may wait long, and
        whoever wants in has to come again anyway."""
        for reply, row in list(self._begun.items()):
            if row.rule is Rule.ANYONE:
                reply.cancel()
        while self._begun:
            await asyncio.wait(self._begun)


def _authorise(row: Row, request: Any, call: Call) -> None:
    scope = row.scope(request, call)
    if scope is OWN:
        return
    stream_id, topic_id = scope
    user = call.user
    permissions = None if user is None else user.permissions
    if not allows(row.rule, permissions, stream_id, topic_id):
        raise Unauthorized(f"user {call.user_id} may not {row.request.__name__}")


async def _finished(row: Row, session: Session, waiting: Coroutine[Any, Any, Any]) -> Reply:
    try:
        answer = await waiting
        return DONE if answer is None else _encoded(answer)
    except Exception as fault:
        return _refusal(row, session, fault)


def _encoded(answer: Any) -> Reply:
    if isinstance(answer, bytes | RangesReply):
        return answer
    return ok(encode_payload(answer))


def _refusal(row: Row | None, session: Session, fault: Exception) -> Reply:
    if isinstance(fault, NotFound) and row is not None and row.missing_is_empty:
        return EMPTY
    if isinstance(fault, StaleClient | ClientNotFound):
        # The only two answers after which the connection ends: the client has to begin again.
        session.closing = isinstance(fault, StaleClient) or session.closing
    if isinstance(fault, BorzoiError):
        return failed(code_of(fault))
    name = row.request.__name__ if row is not None else "an unknown command"
    log.error("%s of %s failed", name, session.address, exc_info=fault)
    return failed(INTERNAL_ERROR)
