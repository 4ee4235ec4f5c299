"""Streams of messages: lines in, lines out, server-sent events.

::

    lines    one message a line, as JSON (application/x-ndjson)
    events   id: <offset>, data: <message>, and a comment when nothing has happened for a while
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeAlias

import msgspec

from borzoi.handlers.answers import Answer, Delivery
from borzoi.listeners.http import polled
from borzoi.listeners.http.bodies import TooLarge
from borzoi.listeners.http.polled import in_turns
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.contract import Request
from borzoi.protocol.rest.errors import error_answer
from borzoi.protocol.rest.faults import bad_shape, bad_syntax
from borzoi.protocol.rest.messages import (
    MessageInput,
    PartitioningInput,
    SendInput,
)
from borzoi.protocol.rest.routes import FollowMessages

#: How often an idle event stream sends a comment, so that proxies keep it open.
QUIET_MS: Final = 15_000
#: Lines are stored in batches: at this many messages, or this many bytes.
BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 256 * 1024

Perform: TypeAlias = Callable[[Request], Awaitable[Answer]]

_message = msgspec.json.Decoder(MessageInput)


# ---- events -------------------------------------------------------------------------------------


class Following:
    """One client that follows a partition."""

    def __init__(self, request: FollowMessages, last_event_id: str | None) -> None:
        self._request = request
        self._strategy = request.strategy
        if last_event_id is not None and last_event_id.isascii() and last_event_id.isdigit():
            self._strategy = PollingStrategy.offset(int(last_event_id) + 1)

    def poll(self, wait_ms: int) -> PollMessages:
        """Return the next poll."""
        request = self._request
        return PollMessages(
            Consumer(ConsumerKind.CONSUMER, request.consumer_id),
            request.stream_id,
            request.topic_id,
            request.partition_id,
            self._strategy,
            request.count,
            wait_ms=wait_ms,
        )

    async def events(
        self, first: Delivery, perform: Perform, goes_on: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield everything from the first answer on, until `goes_on` is false or a poll fails."""
        delivery = first
        while True:
            if delivery.reading.count:
                async for piece in in_turns(polled.events(delivery)):
                    yield piece
                last = delivery.reading.last_offset
                self._strategy = PollingStrategy.offset(last + 1)
            else:
                yield b": nothing new\n\n"
            if not goes_on():
                return
            try:
                answer = await perform(self.poll(QUIET_MS))
            except BorzoiError as fault:
                body = error_answer(fault, self._request).body or str(fault).encode()
                yield b"event: error\ndata: " + body + b"\n\n"
                return
            assert isinstance(answer, Delivery)
            delivery = answer


# ---- lines that are sent ------------------------------------------------------------------------


class Uploaded(msgspec.Struct):
    """The answer to sent lines: how many of them are stored."""

    messages_count: int


class Lines:
    """Stores messages that arrive as lines, in batches; only one batch is in memory."""

    def __init__(self, where: PartitioningInput, line_bytes_max: int) -> None:
        self._where = where
        self._line_bytes_max = line_bytes_max
        self._rest = b""
        self._batch: list[MessageInput] = []
        self._batch_bytes = 0
        #: Messages that are stored.
        self.stored = 0

    async def send(
        self,
        pieces: AsyncIterator[bytes],
        request_of: Callable[[SendInput], SendMessages],
        perform: Perform,
    ) -> None:
        """Store all lines; the first invalid one raises, and `stored` counts those before it."""
        async for piece in pieces:
            for line in self._lines(piece):
                self._take(line)
                if len(self._batch) >= BATCH_MESSAGES or self._batch_bytes >= BATCH_BYTES:
                    await self._send_batch(request_of, perform)
        self._take(self._rest)
        await self._send_batch(request_of, perform)

    def _lines(self, piece: bytes) -> list[bytes]:
        first, *more = piece.split(b"\n")
        if len(self._rest) + len(first) > self._line_bytes_max:
            raise TooLarge(self._line_bytes_max)
        if not more:
            self._rest += first
            return []
        lines = [self._rest + first, *more[:-1]]
        self._rest = more[-1]
        return lines

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            self._batch.append(_message.decode(line))
        except msgspec.ValidationError as fault:
            raise bad_shape(str(fault)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            raise bad_syntax(str(fault)) from None
        self._batch_bytes += len(line)

    async def _send_batch(
        self, request_of: Callable[[SendInput], SendMessages], perform: Perform
    ) -> None:
        if not self._batch:
            return
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        await perform(request_of(SendInput(self._where, batch)))
        self.stored += len(batch)
