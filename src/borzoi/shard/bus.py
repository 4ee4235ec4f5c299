"""Requests and replies between the shards of one server.

Backpressure: a shard has at most `WINDOW_REQUESTS` operations, and `WINDOW_BYTES` of them, in
flight to one peer. Further ones wait here, and so do the connections they came from, which read
nothing more until they are answered; a connection has one request at a time. Operations of a peer
that does not read its replies are not started until it does. Both sides always read, so two full
queues cannot deadlock.

When a peer dies, its pending requests fail with `ShardUnavailable`. Idempotent requests wait for
the process that replaces it, and so do new ones.
"""

import asyncio
import logging
from asyncio import Future
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from borzoi.model.errors import BorzoiError, ServerError, ShardUnavailable
from borzoi.partitions.futures import PromptFuture
from borzoi.shard.client_socket import ANSWERED
from borzoi.shard.envelopes import (
    Bytes,
    Envelope,
    EnvelopeKind,
    Subject,
    decode_failure,
    encode_failure,
)
from borzoi.shard.line import JOINED_BYTES_MAX, PeerLine, close_all
from borzoi.shard.links import Links, Peer

log = logging.getLogger(__name__)

#: Operations in flight to one peer, and the total size of their bodies.
WINDOW_REQUESTS: Final = 1024
WINDOW_BYTES: Final = 16 << 20
#: Unsent bytes to a peer above which none of its operations is started.
UNTAKEN_BYTES_MAX: Final = 16 << 20
#: How long a request waits for a missing peer.
ABSENT_SECONDS_MAX: Final = 10.0

#: An internal error; the log has the traceback.
INTERNAL_ERROR: Final = 1

#: As plain numbers: looking one up in the enumeration takes a part of a microsecond.
REQUEST: Final = int(EnvelopeKind.REQUEST)
REPLY: Final = int(EnvelopeKind.REPLY)
FAILURE: Final = int(EnvelopeKind.FAILURE)
NOTICE: Final = int(EnvelopeKind.NOTICE)
CANCEL: Final = int(EnvelopeKind.CANCEL)
OPERATION: Final = int(Subject.OPERATION)


class Letter(msgspec.Struct, frozen=True):
    """The content of a request or reply. The bus owns the descriptors, and closes them."""

    body: Bytes = b""
    descriptors: Sequence[int] = ()


class Arrived(msgspec.Struct, frozen=True):
    """What arrived from a peer. The receiver owns the descriptors."""

    shard: int
    body: Bytes
    descriptors: Sequence[int] = ()


EMPTY: Final = Letter()


def _itself(found: Arrived) -> Arrived:
    return found


#: Returns the answer to a request; the answer to a notice is dropped.
Answered: TypeAlias = "Letter | Future[Letter] | Coroutine[Any, Any, Letter]"
Handler: TypeAlias = Callable[[Arrived], Answered]


class _Request(msgspec.Struct, eq=False):
    """A pending request of this shard."""

    shard: int
    subject: int
    message: Letter
    answer: PromptFuture[Any]
    #: Whether it may be repeated.
    repeatable: bool
    #: Whether it bypasses the window.
    urgent: bool
    #: Whether it leaves before the turn of the loop ends.
    at_once: bool
    #: Decodes the answer from what arrived; None if it says nothing.
    make: Callable[[Arrived], Any] | None
    #: What counts for the window.
    size: int
    #: 0 until it was sent.
    number: int = 0


class Bus:
    """Requests of a shard to its peers, and of its peers to it."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.shard = links.shard
        self.count = links.count
        self._loop = asyncio.get_running_loop()
        self.handlers: dict[int, Handler] = {}
        #: Requests of peers that arrived before their handler was registered, by subject.
        self._early: dict[int, list[tuple[_Exchange, Envelope]]] = {}
        self._exchanges: dict[int, _Exchange] = {}
        #: Requests to missing peers, by shard.
        self._absent: dict[int, deque[_Request]] = {}
        #: Called when a peer is lost, and when another process has replaced it.
        self.when_lost: list[Callable[[int], None]] = []
        self.when_there: list[Callable[[int], None]] = []
        #: A connection failed although the peer may be alive. This shard has to be replaced: nobody
        #: connects two living shards again.
        self.broken = asyncio.Event()
        self._is_closed = False
        #: The server is stopping: peers that end now have not died.
        self.is_stopping = False
        for peer in list(links.peers.values()):
            self._exchanges[peer.shard] = _Exchange(self, peer)
        links.on_peer = self._appeared
        links.on_peer_lost = self._disappeared

    @property
    def others(self) -> list[int]:
        """The numbers of all other shards, alive or not."""
        return [shard for shard in range(self.count) if shard != self.shard]

    def is_there(self, shard: int) -> bool:
        return shard in self._exchanges

    def answer(self, subject: Subject, handler: Handler) -> None:
        """Register the handler of a subject; it also gets requests that arrived before."""
        self.handlers[subject] = handler
        for exchange, envelope in self._early.pop(subject, []):
            exchange.begin(envelope, handler)

    def keep_until_answered(self, exchange: "_Exchange", envelope: Envelope) -> None:
        self._early.setdefault(envelope.subject, []).append((exchange, envelope))

    def request(
        self,
        shard: int,
        subject: int,
        message: Letter = EMPTY,
        *,
        repeatable: bool = False,
        urgent: bool = False,
        cancellable: bool = False,
        at_once: bool = False,
        make: Callable[[Arrived], Any] | None = _itself,
        answer: PromptFuture[Any] | None = None,
    ) -> PromptFuture[Any]:
        """Send a request to a peer; return a future of the answer, decoded by `make`. Without
        `make` the answer says nothing, and is None, or `ANSWERED` if the peer has answered the
        client. The future is `answer`, if it is given.

        It fails with what the peer's handler raised, or with `ShardUnavailable`. If the request is
        `cancellable`, cancelling the future cancels the work of the peer. With `at_once` it
        does not wait for other requests of this turn.
        """
        if answer is None:
            answer = PromptFuture(loop=self._loop)
        size = len(message.body)
        request = _Request(shard, subject, message, answer, repeatable, urgent, at_once, make, size)
        if cancellable:
            answer.add_done_callback(lambda done: self._cancelled(request, done))
        exchange = self._exchanges.get(shard)
        if exchange is None:
            self._wait_for_peer(request)
        else:
            exchange.ask(request)
        return answer

    def append(
        self, shard: int, body: bytes, answer: PromptFuture[Any] | None = None
    ) -> PromptFuture[Any]:
        """Send an operation whose answer says nothing, at once.

        It is what `request` does, in one step for the usual case that nothing else is in flight:
        after the switch to another process every function costs a microsecond.
        """
        exchange, size = self._exchanges.get(shard), len(body)
        if exchange is None or exchange.window_requests or size > JOINED_BYTES_MAX:
            letter = Letter(body)
            return self.request(shard, OPERATION, letter, at_once=True, make=None, answer=answer)
        if answer is None:
            answer = PromptFuture(loop=self._loop)
        number = exchange.numbers + 1
        request = _Request(
            shard, OPERATION, Letter(body), answer, False, False, True, None, size, number
        )
        exchange.numbers, exchange.pending[number] = number, request
        exchange.window_requests, exchange.window_bytes = 1, size
        exchange.line.send_now(REQUEST, OPERATION, number, body)
        return answer

    def tell(self, shard: int, subject: Subject, message: Letter = EMPTY) -> bool:
        """Send a notice, which has no answer; return whether the peer is alive.

        It arrives after the answers that were sent before, and before those sent later.
        """
        exchange = self._exchanges.get(shard)
        if exchange is None:
            close_all(message.descriptors)
            return False
        exchange.tell(subject, message)
        return True

    def _cancelled(self, request: _Request, done: "Future[Any]") -> None:
        exchange = self._exchanges.get(request.shard)
        if done.cancelled() and exchange is not None:
            exchange.cancel(request)

    # Peers that come and go.

    def _wait_for_peer(self, request: _Request) -> None:
        if self._is_closed or self.broken.is_set():
            fail(request.answer, ShardUnavailable("this shard stops"))
            return
        self._absent.setdefault(request.shard, deque()).append(request)
        self._loop.call_later(ABSENT_SECONDS_MAX, self._give_up, request)

    def _give_up(self, request: _Request) -> None:
        waiting = self._absent.get(request.shard)
        if waiting is not None and request in waiting:
            waiting.remove(request)
            fail(request.answer, ShardUnavailable(f"shard {request.shard} did not come back"))

    def _appeared(self, peer: Peer) -> None:
        if self._is_closed:
            peer.close()
            return
        self._disappeared(peer.shard)
        self.links.add(peer)
        exchange = self._exchanges[peer.shard] = _Exchange(self, peer)
        for call in self.when_there:
            call(peer.shard)
        for request in self._absent.pop(peer.shard, ()):
            if not request.answer.done():
                exchange.ask(request)

    def _disappeared(self, shard: int) -> None:
        exchange = self._exchanges.get(shard)
        if exchange is not None:
            exchange.line.lose(None)

    def lost(self, exchange: "_Exchange", fault: OSError | None) -> None:
        """The connection to a peer has ended: the peer died, unless there is another fault."""
        shard = exchange.shard
        if self._exchanges.get(shard) is not exchange:
            return
        del self._exchanges[shard]
        if not self._is_closed and not self.is_stopping:
            log.warning("lost shard %d%s", shard, f": {fault}" if fault else "")
            if fault is not None and not isinstance(fault, ConnectionError):
                self.broken.set()
                self._fail_waiting()
        for kept in self._early.values():
            for source, envelope in kept:
                if source is exchange:
                    close_all(envelope.descriptors)
            kept[:] = [one for one in kept if one[0] is not exchange]
        for request in exchange.abandoned():
            if request.answer.done():
                continue
            if request.repeatable or not request.number:
                request.number = 0
                self._wait_for_peer(request)
            else:
                fail(request.answer, ShardUnavailable(f"shard {shard} died"))
        self.links.remove(shard)
        for call in self.when_lost:
            call(shard)

    def close(self) -> None:
        self._is_closed = True
        for exchange in list(self._exchanges.values()):
            exchange.line.lose(None)
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        """Fail the requests to missing peers."""
        for waiting in self._absent.values():
            for request in waiting:
                fail(request.answer, ShardUnavailable("this shard stops"))
        self._absent.clear()


class _Exchange:
    """Requests and replies with one live peer."""

    def __init__(self, bus: Bus, peer: Peer) -> None:
        self._bus = bus
        self.shard = peer.shard
        self.numbers = 0
        #: Our requests in flight, by number.
        self.pending: dict[int, _Request] = {}
        self.window_requests = 0
        self.window_bytes = 0
        #: Operations waiting for the window.
        self._parked: deque[_Request] = deque()
        #: The peer's running requests, by number.
        self._running: dict[int, Future[Letter]] = {}
        #: The peer's operations that wait until it reads its replies.
        self._deferred: deque[Envelope] = deque()
        self.line = PeerLine(
            peer,
            on_envelope={
                REQUEST: self._asked,
                NOTICE: self._asked,
                CANCEL: self._withdrawn,
                REPLY: self._answered,
                FAILURE: self._answered,
            },
            on_drained=self._drained,
            on_lost=lambda fault: bus.lost(self, fault),
        )

    # Our requests.

    def ask(self, request: _Request) -> None:
        # While nothing is in flight nothing is parked, and there is room.
        is_bounded = self.window_requests and not request.urgent
        if is_bounded and (self._parked or not self._has_room(request)):
            self._parked.append(request)
        else:
            self._send_request(request)

    def _send_request(self, request: _Request) -> None:
        urgent, message = request.urgent, request.message
        if not urgent:
            self.window_requests += 1
            self.window_bytes += request.size
        self.numbers = number = request.number = self.numbers + 1
        self.pending[number] = request
        envelope = Envelope(REQUEST, request.subject, number, message.body, message.descriptors)
        self.line.send(envelope, urgent=urgent, at_once=request.at_once)

    def _has_room(self, request: _Request) -> bool:
        return not self.window_requests or (
            self.window_requests < WINDOW_REQUESTS
            and self.window_bytes + request.size <= WINDOW_BYTES
        )

    def tell(self, subject: int, message: Letter) -> None:
        # Its own number: its fragments must not be mixed up with those of another notice.
        self.numbers += 1
        self.send(NOTICE, subject, self.numbers, message, urgent=False)

    def _admit_parked(self) -> None:
        """Send the operations for which the window has room."""
        while self._parked and self._has_room(self._parked[0]):
            waiting = self._parked.popleft()
            if not waiting.answer.done():
                self._send_request(waiting)

    def cancel(self, request: _Request) -> None:
        """The caller was cancelled. The peer replies in any case, which settles the request."""
        if self.pending.get(request.number) is request:
            self.send(CANCEL, request.subject, request.number, EMPTY, urgent=False)

    def abandoned(self) -> list[_Request]:
        """The peer has died: return its pending requests, in flight or waiting."""
        for running in list(self._running.values()):
            running.cancel()
        left = [*self.pending.values(), *self._parked]
        self.pending.clear()
        self._parked.clear()
        for envelope in self._deferred:
            close_all(envelope.descriptors)
        self._deferred.clear()
        return left

    def send(self, kind: int, subject: int, number: int, message: Letter, *, urgent: bool) -> None:
        envelope = Envelope(kind, subject, number, message.body, message.descriptors)
        self.line.send(envelope, urgent=urgent)

    # What arrives.

    def _withdrawn(self, envelope: Envelope) -> None:
        running = self._running.get(envelope.number)
        if running is not None:
            running.cancel()

    def _asked(self, envelope: Envelope) -> None:
        handler = self._bus.handlers.get(envelope.subject)
        if handler is None:
            self._bus.keep_until_answered(self, envelope)
        elif envelope.subject == OPERATION and (
            self._deferred or self.line.untaken_bytes > UNTAKEN_BYTES_MAX
        ):
            self._deferred.append(envelope)
        else:
            self.begin(envelope, handler)

    def _drained(self) -> None:
        while self._deferred and self.line.untaken_bytes <= UNTAKEN_BYTES_MAX:
            self.begin(self._deferred.popleft(), self._bus.handlers[OPERATION])

    def _answered(self, envelope: Envelope) -> None:
        request = self.pending.pop(envelope.number, None)
        if request is not None and not request.urgent:
            self.window_requests -= 1
            self.window_bytes -= request.size
            if self._parked:
                self._admit_parked()
        if request is None or request.answer.done():
            close_all(envelope.descriptors)
        elif envelope.kind == FAILURE:
            request.answer.fail(decode_failure(envelope.body))
        elif request.make is None:
            request.answer.settle(ANSWERED if envelope.body else None)
        else:
            try:
                found = request.make(Arrived(self.shard, envelope.body, envelope.descriptors))
            except BorzoiError as fault:
                request.answer.fail(fault)
                return
            request.answer.settle(found)

    def begin(self, envelope: Envelope, handler: Handler) -> None:
        """Run a request of the peer."""
        try:
            answer = handler(Arrived(self.shard, envelope.body, envelope.descriptors))
        except Exception as fault:
            self._fail(envelope, fault)
            return
        if isinstance(answer, Letter):
            self._reply(envelope, answer)
            return
        if isinstance(answer, Coroutine):
            answer = asyncio.get_running_loop().create_task(answer)
        self._running[envelope.number] = answer
        answer.add_done_callback(lambda done: self._finished(envelope, done))

    def _finished(self, envelope: Envelope, done: "Future[Letter]") -> None:
        self._running.pop(envelope.number, None)
        if done.cancelled():
            self._fail(envelope, ShardUnavailable("the request was cancelled"))
            return
        fault = done.exception()
        if fault is None:
            self._reply(envelope, done.result())
        elif isinstance(fault, Exception):
            self._fail(envelope, fault)

    def _reply(self, envelope: Envelope, message: Letter) -> None:
        if envelope.kind == REQUEST:
            subject, number, body = envelope.subject, envelope.number, message.body
            is_small = len(body) <= JOINED_BYTES_MAX and not message.descriptors
            if subject == OPERATION and is_small and self.line.is_last:
                self.line.send_now(REPLY, subject, number, body)
                return
            reply = Envelope(REPLY, subject, number, body, message.descriptors)
            self.line.send(reply, urgent=subject != OPERATION)

    def _fail(self, envelope: Envelope, fault: Exception) -> None:
        if not isinstance(fault, BorzoiError):
            name = Subject(envelope.subject).name
            log.error("%s from shard %d failed", name, self.shard, exc_info=fault)
            fault = ServerError(INTERNAL_ERROR, f"{name} failed inside the server")
        if envelope.kind == REQUEST:
            self.send(
                FAILURE,
                envelope.subject,
                envelope.number,
                Letter(encode_failure(fault)),
                urgent=envelope.subject != OPERATION,
            )


def fail(answer: PromptFuture[Any], fault: BorzoiError) -> None:
    if not answer.done():
        answer.fail(fault)
