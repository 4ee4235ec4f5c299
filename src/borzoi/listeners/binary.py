"""The binary protocol: frames to requests, answers to frames. Every byte stream shares it.

TCP, TLS, WebSocket and QUIC speak it; HTTP has a codec of its own. What a request does is decided
by `handlers/dispatch.py`.
"""

import logging
import struct
from asyncio import Future
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from borzoi.handlers.answers import Answer, Delivery
from borzoi.handlers.call import Call
from borzoi.handlers.dispatch import INTERNAL_ERROR, Dispatcher, Performed
from borzoi.handlers.routes import PollRoutes, SendRoutes
from borzoi.handlers.sessions import Session
from borzoi.memory.pool import NOWHERE
from borzoi.model.errors import BorzoiError, InvalidCommand, NotFound
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import POLL_MOVING, POLLED_PREFIX
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import RESPONSE_PREFIX
from borzoi.protocol.values import strategy_of
from borzoi.storage.reading import FileRange

log = logging.getLogger(__name__)

SEND_MESSAGES = int(Code.SEND_MESSAGES)
POLL_MESSAGES = int(Code.POLL_MESSAGES)
#: Requests that clients repeat.
HOT_CODES = frozenset({SEND_MESSAGES, POLL_MESSAGES})

#: The response without a payload: status 0, length 0.
DONE = RESPONSE_PREFIX.pack(0, 0)

#: The start of a response to a poll: status, length, and the fixed start of the payload.
POLLED_HEAD = struct.Struct(RESPONSE_PREFIX.format + POLLED_PREFIX.format.removeprefix("<"))
assert POLLED_HEAD.size == RESPONSE_PREFIX.size + POLLED_PREFIX.size


class RangesReply(msgspec.Struct):
    """A response whose payload ends in stored bytes, which the owner of the socket sends."""

    head: bytes
    ranges: Sequence[FileRange]
    #: Messages that follow the ranges and are in no plain file.
    tail: Sequence[memoryview]


#: A whole response frame.
Reply: TypeAlias = bytes | RangesReply


class BinaryProtocol:
    """Answers the frames of all binary connections of one shard."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self._send_routes = SendRoutes()
        self._poll_routes = PollRoutes()

    def respond(
        self, session: Session, code: int, payload: memoryview, *, at: int = NOWHERE
    ) -> "Reply | Future[Answer]":
        """The response to a frame, or the future of an answer, which `reply_to` encodes.

        `at` is the position of the payload in the memory pool, if it lies there.
        """
        try:
            answer = self._performed(session, code, payload, at)
            if answer is None:
                return DONE
            return answer if isinstance(answer, Future) else encoded(answer)
        except Exception as fault:
            return self._refusal(session, code, fault)

    def reply_to(self, session: Session, code: int, done: "Future[Answer]") -> Reply:
        """The response to a frame whose answer had to be waited for and was not cancelled."""
        try:
            return encoded(done.result())
        except Exception as fault:
            return self._refusal(session, code, fault)

    def _performed(self, session: Session, code: int, payload: memoryview, at: int) -> Performed:
        dispatcher = self.dispatcher
        is_hot = code in HOT_CODES
        if is_hot and session.user_id is not None and not session.stale:
            known, answer = self._fast_path(session, code, payload, at)
            if known:
                return answer
        row = dispatcher.rows.get(code)
        if row is None:
            raise InvalidCommand(f"no command has the code {code}")
        request = row.request.decode(Reader(payload))
        answer = dispatcher.perform(session, request)
        if is_hot:
            call = Call(session, dispatcher.services)
            if code == SEND_MESSAGES:
                self._send_routes.remember(session, payload, call)
            else:
                self._poll_routes.remember(session, payload, request, call)
        return answer

    def _fast_path(
        self, session: Session, code: int, payload: memoryview, at: int
    ) -> tuple[bool, Performed]:
        """Whether the request was permitted before but for its messages or its offset, and its
        answer."""
        dispatcher = self.dispatcher
        revision = dispatcher.services.metadata.revision
        if code == SEND_MESSAGES:
            known = self._send_routes.find(session, payload, revision, at)
            if known is None:
                return False, None
            return True, dispatcher.send_again(session, *known)
        route = self._poll_routes.find(session, payload, revision)
        if route is None:
            return False, None
        kind, value, count, auto_commit = POLL_MOVING.unpack_from(
            payload, len(payload) - POLL_MOVING.size
        )
        strategy = strategy_of(kind, value)
        return True, dispatcher.poll_again(session, route, strategy, count, auto_commit != 0)

    def _refusal(self, session: Session, code: int, fault: Exception) -> Reply:
        row = self.dispatcher.rows.get(code)
        if isinstance(fault, NotFound) and row is not None and row.missing_is_empty:
            return DONE
        if isinstance(fault, BorzoiError):
            return failed(code_of(fault))
        name = "an unknown command" if row is None else row.request.__name__
        log.error("%s from %s failed", name, session.address, exc_info=fault)
        return failed(INTERNAL_ERROR)


def encoded(answer: Answer) -> Reply:
    """The response frame of an answer."""
    if answer is None:
        return DONE
    if not isinstance(answer, Delivery):
        return ok(encode_payload(answer))
    reading = answer.reading
    head = POLLED_HEAD.pack(
        0,
        POLLED_PREFIX.size + reading.size,
        answer.partition_id,
        answer.current_offset,
        reading.count,
    )
    if not reading.ranges:
        return b"".join((head, *reading.tail)) if reading.tail else head
    return RangesReply(head, reading.ranges, reading.tail)


def ok(payload: bytes) -> bytes:
    """A successful response."""
    return RESPONSE_PREFIX.pack(0, len(payload)) + payload


def failed(status: int) -> bytes:
    """An error response. It never has a payload, or clients would lose the frame boundary."""
    return RESPONSE_PREFIX.pack(status, 0)
