"""The binary protocol: frames to requests, answers to frames. Every byte stream shares it.

TCP, TLS, WebSocket and QUIC speak it; HTTP has its own codec. What a request does is decided
by `handlers/dispatch.py`.
"""

import asyncio
import logging
import struct
from asyncio import Future
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final, TypeAlias

import msgspec

from borzoi.handlers.answers import Answer, Delivery
from borzoi.handlers.dispatch import INTERNAL_ERROR, Dispatcher, Performed
from borzoi.handlers.prepared import PreparedPoll, PreparedRequests, PreparedSend
from borzoi.handlers.sessions import Session
from borzoi.listeners.gathering import (
    GATHERED_BYTES_MAX,
    GatheredSender,
    GatheredSends,
    MeasuredSender,
    Repeated,
)
from borzoi.listeners.repeated_polls import POLLED_HEAD, POLLED_PREFIX_BYTES, RepeatedPoll
from borzoi.listeners.unfinished import UNFINISHED_BYTES_DEFAULT, Unfinished
from borzoi.memory.pool import Payload
from borzoi.model.consuming import ConsumerKind, PollingKind
from borzoi.model.errors import BorzoiError, InvalidCommand, NotFound
from borzoi.model.namespace import Namespace
from borzoi.model.system import TransportKind
from borzoi.partitions.turns import turns
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import (
    PollMessages,
    SendMetadata,
    constant_of_send,
    decode_send_metadata,
    split_poll,
    split_send,
)
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import DONE as DONE
from borzoi.protocol.framing import RESPONSE_PREFIX
from borzoi.protocol.values import strategy_of
from borzoi.records.accelerator import native
from borzoi.records.batch import SMALL, Batch, found_batch, receive, receive_at
from borzoi.records.layouts import Layouts
from borzoi.shard.client_socket import Answered
from borzoi.storage.media import read_exactly
from borzoi.storage.reading import FileRange, Produced, chunks_of
from borzoi.telemetry.durations import Durations

log = logging.getLogger(__name__)

SEND_MESSAGES = int(Code.SEND_MESSAGES)
POLL_MESSAGES = int(Code.POLL_MESSAGES)
OFFSET: Final = int(PollingKind.OFFSET)

#: The commands of the hot path. One in MEASURED_EVERY of them is measured, and counts for all.
HOT_CODES: Final = frozenset({SEND_MESSAGES, POLL_MESSAGES})
MEASURED_EVERY: Final = 16

#: Batches of more messages are checked by a thread: it takes milliseconds without the accelerator.
CHECKED_AT_ONCE_MAX: Final = 32_768

#: Polled bytes in memory up to this size are sent together with their head.
JOINED_BYTES_MAX: Final = 64 * 1024
#: So do those of one file: to read them is cheaper than a system call of its own that sends them.
READ_BYTES_MAX: Final = 16 * 1024

_polled_head: Final = POLLED_HEAD.pack

#: What a send's frame begins with behind its length: the code, and the length of its metadata.
#: Those are the constant bytes and the number of messages.
SEND_START: Final = struct.Struct("<II")
COUNT_BYTES: Final = 4


class RangesReply(msgspec.Struct):
    """A response whose payload ends in stored bytes, which the owner of the socket sends."""

    head: bytes
    ranges: Sequence[FileRange]
    #: Messages after the ranges: in no plain file, or produced as they are sent.
    tail: Sequence[memoryview | Produced]

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        size = len(self.head) + sum(part.length for part in self.ranges)
        for part in self.tail:
            size += part.length if isinstance(part, Produced) else len(part)
        return size


#: A whole response frame.
Reply: TypeAlias = bytes | RangesReply


class BinaryProtocol:
    """Answers the frames of all binary connections of one shard."""

    def __init__(
        self, dispatcher: Dispatcher, *, unfinished_bytes_max: int = UNFINISHED_BYTES_DEFAULT
    ) -> None:
        self.dispatcher = dispatcher
        self._metadata = dispatcher.services.metadata
        self._owned = dispatcher.services.partitions.owned
        #: Shared by the connections: turns on the loop, and memory for incomplete frames.
        self.turns = turns()
        self.unfinished = Unfinished(unfinished_bytes_max, self.turns)
        #: Small sends of one turn, which are stored together.
        self.gathering = GatheredSends(dispatcher.send, self._refusal_of_append, self._owned)
        self._sends = PreparedRequests[PreparedSend]()
        self._polls = PreparedRequests[PreparedPoll]()
        self._repeated = PreparedRequests[Repeated]()
        self._layouts = Layouts()
        #: Durations of requests by code and transport.
        self._durations: dict[tuple[int, TransportKind], Durations] = {}
        self._checking = asyncio.Lock()
        self._turn = 0

    def respond(
        self, session: Session, code: int, payload: Payload, sender: GatheredSender | None = None
    ) -> "Reply | Future[Answer]":
        """The response to a frame, or the future of an answer, which `reply_to` encodes.

        With a `sender` a small send may be stored together with others: then the future is
        `gathering.running`, and the sender gets the response.
        """
        # Sends and polls come too often to measure each of them.
        self._turn = turn = self._turn + 1
        started = 0 if turn % MEASURED_EVERY and code in HOT_CODES else perf_counter_ns()
        try:
            if session.user_id is None or session.stale:
                answer = self._perform(session, code, payload)
            elif code == SEND_MESSAGES:
                if started and sender is not None:
                    sender = self._measured(session, started, sender)
                answer = self._send(session, payload, sender)
            elif code == POLL_MESSAGES:
                answer = self._poll(session, payload.view, sender)
            else:
                answer = self._perform(session, code, payload)
            if isinstance(answer, Future):
                if started and answer is not self.gathering.running:
                    self._measure_later(session, code, started, answer)
                return answer
            reply = DONE if answer is None else encoded(answer)
        except Exception as fault:
            reply = self._refusal(session, code, fault)
        if started:
            self._measure(session, code, started)
        return reply

    def refusal_of_send(self, session: Session, first: memoryview, size: int) -> bytes | None:
        """Return the rejection of a large send from its first bytes; None if it is allowed, as far
        as that is known before its messages have arrived."""
        if session.user_id is None or session.stale:
            return None
        revision = self._metadata.revision
        constant = constant_of_send(first)
        if self._sends.find(session.user_id, constant, revision) is not None:
            return None
        try:
            send = decode_send_metadata(first, size)
            prepared = self.dispatcher.prepare_send(session, send)
        except Exception as fault:
            return self._refusal(session, SEND_MESSAGES, fault)
        if send.is_tight:
            self._sends.keep(session.user_id, constant, prepared)
        return None

    def repeats(
        self, session: Session, repeated: Repeated, frame: memoryview, sender: GatheredSender
    ) -> bool:
        """Whether this whole frame is a send like the last one of its connection, and is stored
        with others at the end of the turn. If not, it is for `respond`."""
        if (
            repeated.revision != self._metadata.revision
            or repeated.user_id != session.user_id
            or session.stale
        ):
            return False
        turn = self._turn + 1
        if not turn % MEASURED_EVERY:
            sender = self._measured(session, perf_counter_ns(), sender)
        if not self.gathering.repeat(session, repeated, frame, sender):
            return False
        self._turn = turn
        return True

    def polls_again(
        self, session: Session, repeated: RepeatedPoll, frame: memoryview
    ) -> "Reply | Future[Answer] | None":
        """The response to this whole frame, or the future of the answer, if it is a poll like the
        last one of its connection. If not, or if it fails, it is for `respond`."""
        if (
            repeated.revision != self._metadata.revision
            or repeated.user_id != session.user_id
            or session.stale
        ):
            return None
        turn = self._turn + 1
        started = 0 if turn % MEASURED_EVERY else perf_counter_ns()
        try:
            answer = repeated.answer(frame)
            if answer is None:
                return None
            if isinstance(answer, Future):
                self._turn = turn
                if started:
                    self._measure_later(session, POLL_MESSAGES, started, answer)
                return answer
            reply = answer if isinstance(answer, bytes) else encoded(answer)
        except BorzoiError:
            return None
        self._turn = turn
        if started:
            self._measure(session, POLL_MESSAGES, started)
        return reply

    def _measured(self, session: Session, started: int, sender: GatheredSender) -> GatheredSender:
        return MeasuredSender(sender, lambda: self._measure(session, SEND_MESSAGES, started))

    def _measure_later(
        self, session: Session, code: int, started: int, answer: "Future[Answer]"
    ) -> None:
        answer.add_done_callback(lambda _: self._measure(session, code, started))

    def _measure(self, session: Session, code: int, started: int) -> None:
        taken = perf_counter_ns() - started
        durations = self._durations.get((code, session.transport))
        if durations is None:
            durations = self._durations_of(code, session.transport)
        durations.observe(taken, MEASURED_EVERY if code in HOT_CODES else 1)

    def _durations_of(self, code: int, transport: TransportKind) -> Durations:
        row = self.dispatcher.rows.get(code)
        command = "unknown" if row is None else row.request.CODE.name.lower()
        durations = self.dispatcher.times.of(command, transport.name.lower())
        if row is not None:  # unknown codes are as many as clients make up
            self._durations[code, transport] = durations
        return durations

    def reply_to(self, session: Session, code: int, done: "Future[Answer]") -> Reply:
        """Return the response to a frame whose answer was pending and was not cancelled; nothing if
        the client has it."""
        try:
            answer = done.result()
            if isinstance(answer, Answered):
                return b""
            return DONE if answer is None else encoded(answer)
        except Exception as fault:
            return self._refusal(session, code, fault)

    def _perform(self, session: Session, code: int, payload: Payload) -> Performed:
        row = self.dispatcher.rows.get(code)
        if row is None:
            raise InvalidCommand(f"no command has the code {code}")
        if code == SEND_MESSAGES:  # of all requests only its messages are kept
            payload = payload.owned()
        return self.dispatcher.perform(session, row.request.decode(Reader(payload.view)))

    def _send(self, session: Session, payload: Payload, sender: GatheredSender | None) -> Performed:
        dispatcher, view = self.dispatcher, payload.view
        revision = self._metadata.revision
        if native is not None:
            found = native.split(view)
            if found is not None:
                constant, messages_start, ends = found
                prepared = self._sends.find(session.user_id, constant, revision)
                if prepared is not None:
                    messages = view[messages_start:]
                    namespace = prepared.namespace or self._chosen(prepared)
                    if sender is not None and isinstance(ends, list):
                        if self.gathering.take(session, namespace, messages, ends, sender):
                            if prepared.namespace is not None:
                                self._expect_more(session, constant, prepared.namespace, sender)
                            return self.gathering.running
                        sender = None
                    batch = found_batch(messages, ends)
                    return self._store(session, prepared, namespace, batch, payload, sender)
        parts = split_send(view)
        if parts is not None:
            constant, count, indexes_start, messages_start = parts
            if count > CHECKED_AT_ONCE_MAX:
                return self._send_many(session, payload)
            prepared = self._sends.find(session.user_id, constant, revision)
            if prepared is not None:
                batch = self._batch(payload, count, indexes_start, messages_start)
                namespace = prepared.namespace or self._chosen(prepared)
                return self._store(session, prepared, namespace, batch, payload, sender)
        send = decode_send_metadata(view)
        if send.messages_count > CHECKED_AT_ONCE_MAX:
            return self._send_many(session, payload)
        # A faulty batch is reported before a missing stream, topic or permission.
        batch = self._batch(payload, send.messages_count, send.indexes_start, send.messages_start)
        prepared = dispatcher.prepare_send(session, send)
        if parts is not None and send.is_tight:
            self._sends.keep(session.user_id, parts[0], prepared)
        namespace = prepared.namespace or self._chosen(prepared)
        return self._store(session, prepared, namespace, batch, payload, None)

    def _expect_more(
        self, session: Session, constant: bytes, namespace: Namespace, sender: GatheredSender
    ) -> None:
        """The next send of this connection may be like the last one."""
        user_id, revision = session.user_id, self._metadata.revision
        repeated = self._repeated.find(user_id, constant, revision)
        if repeated is None:
            start = SEND_START.pack(SEND_MESSAGES, len(constant) + COUNT_BYTES) + constant
            repeated = Repeated(user_id, revision, namespace, start)
            self._repeated.keep(user_id, constant, repeated)
        sender.may_repeat(repeated)

    def _chosen(self, prepared: PreparedSend) -> Namespace:
        return prepared.chosen(self.dispatcher.services.partitions)

    def _store(
        self,
        session: Session,
        prepared: PreparedSend,
        namespace: Namespace,
        batch: Batch,
        payload: Payload,
        sender: GatheredSender | None,
    ) -> Performed:
        """Store a batch with others of this turn, if there is a `sender`, or at once."""
        # A larger batch is never gathered, so its ends need not be computed.
        if sender is not None and batch.size <= GATHERED_BYTES_MAX:
            messages, ends = batch.messages, batch.ends
            if self.gathering.take(session, namespace, messages, ends, sender):
                return self.gathering.running
        if namespace in self.gathering.sends:
            self.gathering.flush(namespace)
        if payload.is_borrowed:
            batch.messages = memoryview(bytearray(batch.messages))
        return self.dispatcher.send(session, namespace, batch, prepared, payload)

    def _send_many(self, session: Session, payload: Payload) -> Performed:
        """A send with too many messages to check on the event loop."""
        payload = payload.owned()
        send = decode_send_metadata(payload.view)
        self.dispatcher.prepare_send(session, send)
        return self.dispatcher.later(SEND_MESSAGES, session, self._sent(session, send, payload))

    async def _sent(self, session: Session, send: SendMetadata, payload: Payload) -> Answer:
        messages = payload.view[send.messages_start :]
        indexes = payload.view[send.indexes_start : send.messages_start]
        # One at a time: several threads would slow the loop down more than one.
        async with self._checking:
            batch = await asyncio.to_thread(receive, messages, indexes, send.messages_count)
        prepared = self.dispatcher.prepare_send(session, send)
        namespace = prepared.namespace or self._chosen(prepared)
        answer = self._store(session, prepared, namespace, batch, payload, None)
        return await answer if isinstance(answer, Future) else answer

    def _batch(
        self, payload: Payload, count: int, indexes_start: int, messages_start: int
    ) -> Batch:
        view = payload.view
        messages, indexes = view[messages_start:], view[indexes_start:messages_start]
        if native is not None or payload.position < 0 or count < SMALL:
            return receive(messages, indexes, count)
        place = (payload.position + messages_start, len(messages), count)
        return receive_at(self._layouts, place, messages, indexes)

    def _poll(
        self, session: Session, payload: memoryview, sender: GatheredSender | None
    ) -> Performed:
        dispatcher = self.dispatcher
        parts = split_poll(payload)
        if parts is None:
            return dispatcher.perform(session, PollMessages.decode(Reader(payload)))
        constant, kind, value, count, auto_commit = parts
        revision = self._metadata.revision
        prepared = self._polls.find(session.user_id, constant, revision)
        if prepared is None:
            reader = Reader(payload)
            request = PollMessages.decode(reader)
            is_alone = request.consumer.kind is ConsumerKind.CONSUMER
            if not is_alone or request.wait_ms or reader.remaining():
                return dispatcher.perform(session, request)
            prepared = dispatcher.prepare_poll(session, request)
            self._polls.keep(session.user_id, constant, prepared)
        strategy = strategy_of(kind, value)
        answer = dispatcher.poll(session, prepared, strategy, count, auto_commit != 0)
        if sender is not None and kind == OFFSET and not auto_commit:
            elsewhere = None
            if prepared.namespace not in self._owned:
                elsewhere = dispatcher.polls_behind(prepared, value, count)
                if elsewhere is None:
                    return answer
            sender.may_repeat(
                RepeatedPoll(
                    session.user_id,
                    revision,
                    self._owned,
                    prepared.namespace,
                    bytes(payload),
                    value,
                    count,
                    dispatcher.services.polled_bytes_max,
                    elsewhere,
                )
            )
        return answer

    def _refusal_of_append(self, session: Session, fault: Exception) -> bytes:
        return self._refusal(session, SEND_MESSAGES, fault)

    def _refusal(self, session: Session, code: int, fault: Exception) -> bytes:
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
    if not isinstance(answer, Delivery):
        assert not isinstance(answer, Answered), "another shard gives only a pending answer"
        return DONE if answer is None else ok(encode_payload(answer))
    reading = answer.reading
    ranges, tail = reading.ranges, reading.tail
    is_one = len(ranges) == 1 and not tail
    size = ranges[0].length if is_one else reading.size
    head = _polled_head(
        0, POLLED_PREFIX_BYTES + size, answer.partition_id, answer.current_offset, reading.count
    )
    if is_one and size <= READ_BYTES_MAX:
        part = ranges[0]
        content = part.content
        if content is None:
            return head + read_exactly(part.file, size, part.position)
        return head + content
    if ranges or (tail and size > JOINED_BYTES_MAX):
        return RangesReply(head, ranges, tail)
    return b"".join((head, *chunks_of(ranges, tail))) if tail else head


def ok(payload: bytes) -> bytes:
    """A successful response."""
    return RESPONSE_PREFIX.pack(0, len(payload)) + payload


def failed(status: int) -> bytes:
    """Return an error response, always without a payload: clients expect none."""
    return RESPONSE_PREFIX.pack(status, 0)
