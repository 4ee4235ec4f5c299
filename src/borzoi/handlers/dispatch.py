"""Authenticate → authorise → run, for requests and answers as values.

Every transport decodes its own requests, calls `Dispatcher.perform`, and encodes the answer.
A request that only touches a local partition gets its answer inside the call; only a handler that
has to wait costs a task.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from borzoi.handlers.answers import Answer, Delivery
from borzoi.handlers.call import Call, Services
from borzoi.handlers.messages import delivered
from borzoi.handlers.prepared import PreparedPoll, PreparedSend, prepare_poll, prepare_send
from borzoi.handlers.scopes import OWN
from borzoi.handlers.sessions import Session
from borzoi.handlers.table import COMMANDS, Row
from borzoi.memory.pool import Payload
from borzoi.metadata import queries
from borzoi.metadata.guards import Allowed, permit
from borzoi.metadata.permissions import FREE, Rule, allows
from borzoi.metadata.state import Stream, Topic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    BorzoiError,
    ClientNotFound,
    InvalidCommand,
    ServerError,
    StaleClient,
    Unauthenticated,
    Unauthorized,
)
from borzoi.model.identifiers import Identifier
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import Append, Poll
from borzoi.partitions.polling import Polled
from borzoi.protocol.commands.groups import JoinConsumerGroup, LeaveConsumerGroup
from borzoi.protocol.commands.messages import PollMessages, SendMessages, SendMetadata
from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.users import LoginUser, LogoutUser
from borzoi.protocol.contract import Request
from borzoi.records.batch import Batch
from borzoi.telemetry.requests import RequestTimes

log = logging.getLogger(__name__)

#: By a name of its own, because looking up a member of an enumeration takes a tenth of a µs.
CONSUMER: Final = ConsumerKind.CONSUMER

#: The status of an internal error; the log has the traceback.
INTERNAL_ERROR = 1

Performed: TypeAlias = "Answer | Future[Answer]"


class PendingRequests(NamedTuple):
    """Requests that have no answer yet."""

    #: They wait for a password to be checked or hashed.
    passwords: int
    #: Polls: most of them wait for messages.
    polls: int
    others: int


class Dispatcher:
    """Performs the requests of all sessions of one shard.

    How a transport uses it::

        answer = dispatcher.perform(session, request)      # raises BorzoiError
        if isinstance(answer, Future):
            answer = await asyncio.shield(answer)          # raises BorzoiError

    - `session` is a `handlers.sessions.Session`, registered in `Services.sessions` for as long as
      the client is connected. `session.user_id` is the user; the login requests set it.
    - `request` is a value of `protocol/commands/` whose class is in `handlers/table.py`.
    - The answer is one of `handlers/answers.py`.
    - The errors are those of `model/errors.py`. `protocol.errors.code_of` gives the status of the
      binary protocol and `row_of(code).http_status` that of HTTP. Faults of the server itself are
      logged here and raised as `ServerError(1)`.
    - A question about something that does not exist raises `NotFound`. Transports that answer it
      with an empty payload look at `rows[code].missing_is_empty`.
    - After an answer or an error, close the connection if `session.closing` is set.
    - `SendMessages.messages` must be a writable view: offsets, timestamps and checksums are stamped
      in place. It may be reused once the answer is there.
    - Cancelling the future cancels the work, so shield it. When the client disconnects, call
    `abandon`.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        self._owned = services.partitions.owned
        #: The commands by their code.
        self.rows: Mapping[int, Row] = {int(row.request.CODE): row for row in COMMANDS}
        self._by_type: Mapping[type, Row] = {row.request: row for row in COMMANDS}
        #: Requests that are running, and the command of each.
        self._pending: dict[Future[Answer], Row] = {}
        #: How long requests took; the transports measure it.
        self.times = RequestTimes()

    def is_public(self, code: int) -> bool:
        """Whether the command needs no login. True for unknown codes, which are refused later."""
        row = self.rows.get(code)
        return row is None or row.rule is Rule.ANYONE

    def perform(self, session: Session, request: Request) -> Performed:
        """Return the answer to a request, or the future of one. Raises `BorzoiError`.

        Faults are reported in this order: the session is stale or not logged in, the request is
        invalid in itself, what it names does not exist, a permission is missing, the rest.
        """
        row = self._by_type.get(type(request))
        if row is None:
            raise InvalidCommand(f"this server does not know {type(request).__name__}")
        try:
            _admit(row, session, request)
            validated = row.validate(request)
            call = self._permitted(row, validated, session)
            return self._watched(row, session, row.run(validated, call))
        except BorzoiError:
            raise
        except Exception as fault:
            raise _internal(row, session, fault) from fault

    # Prepared requests: the caller keeps them and checks that the session is logged in.

    def prepare_send(self, session: Session, request: SendMetadata) -> PreparedSend:
        """Resolve and permit what sends with the same constant bytes share."""
        stream, topic = self._permitted_topic(SEND, session, request.stream_id, request.topic_id)
        return prepare_send(stream, topic, request.partitioning, self.services.partitions)

    def check_send(self, session: Session, stream_id: Identifier, topic_id: Identifier) -> None:
        """Raise what a send there would raise before its messages are validated."""
        self._permitted_topic(SEND, session, stream_id, topic_id)

    def send(
        self,
        session: Session,
        namespace: Namespace,
        batch: Batch,
        prepared: PreparedSend | None = None,
        payload: Payload | None = None,
    ) -> Performed:
        """Store a batch in the partition that was chosen for it; `prepared` is its request, if it
        is the batch of a single one, and `payload` is what ends with its messages."""
        services = self.services
        partition = self._owned.get(namespace)
        if partition is None:
            waiter = services.partitions.run(namespace, Append(batch), now=services.clock())
        else:
            waiter = partition.append(batch, services.clock())
        return None if waiter is None else self._promised(SEND, session, waiter)

    def prepare_poll(self, session: Session, request: PollMessages) -> PreparedPoll:
        """The same for polls by a single consumer."""
        stream, topic = self._permitted_topic(POLL, session, request.stream_id, request.topic_id)
        return prepare_poll(stream, topic, request)

    def poll(
        self,
        session: Session,
        prepared: PreparedPoll,
        strategy: PollingStrategy,
        count: int,
        auto_commit: bool,
    ) -> Performed:
        namespace, consumer_id = prepared.namespace, prepared.consumer_id
        services = self.services
        if auto_commit:
            quota = services.consumer_quota
            quota.admit(session.user_id, namespace.stream_id, namespace.topic_id, consumer_id)
        size_max = services.polled_bytes_max
        partition = self._owned.get(namespace)
        if partition is None:
            operation = Poll(strategy, count, CONSUMER, consumer_id, auto_commit, size_max)
            polled = services.partitions.run(namespace, operation, now=services.clock())
        else:
            polled = partition.poll(strategy, count, CONSUMER, consumer_id, auto_commit, size_max)
        if isinstance(polled, Polled):
            return Delivery(namespace.partition_id, polled.current_offset, polled.reading)
        return self._promised_delivery(session, namespace, polled)

    def polls_behind(
        self, prepared: PreparedPoll, offset: int, count: int
    ) -> Callable[[int], Performed] | None:
        """What answers polls like this one at other offsets, for a partition of another shard."""
        return None

    # A function of its own: a closure in `poll` would slow every poll down.
    def _promised_delivery(
        self, session: Session, namespace: Namespace, polled: "Future[Polled]"
    ) -> "Future[Answer]":
        return self._promised(POLL, session, polled, lambda one: delivered(namespace, one))

    def _permitted_topic(
        self, row: Row, session: Session, stream_id: Identifier, topic_id: Identifier
    ) -> tuple[Stream, Topic]:
        state = self.services.metadata.state
        stream = queries.stream(state, stream_id)
        topic = queries.topic_of(stream, topic_id)
        user = None if session.user_id is None else state.users.get(session.user_id)
        permissions = None if user is None else user.permissions
        if not allows(row.rule, permissions, stream.id, topic.id):
            raise Unauthorized(f"user {session.user_id} lacks the permission {row.rule.name}")
        return stream, topic

    def _permitted(self, row: Row, request: Any, session: Session) -> Call:
        """The call of a request that its session may make; raises otherwise."""
        if session.user_id is None:
            return Call(session, self.services)
        state = self.services.metadata.state
        call = Call(session, self.services, state.users.get(session.user_id))
        if row.rule in FREE:
            return call
        scope = row.scope(request, call)
        if scope is OWN:
            return call
        allowed = Allowed(row.rule, *scope)
        stream, topic = permit(state, allowed, caller_id=session.user_id)
        return Call(session, self.services, call.caller, allowed, stream, topic)

    def _watched(self, row: Row, session: Session, answer: Any) -> Performed:
        """Return the answer unchanged; a pending one is counted until it is done."""
        if isinstance(answer, Coroutine):
            return self._started(row, session, answer)
        if isinstance(answer, Future):
            return self._promised(row, session, answer)
        found: Answer = answer
        return found

    def later(self, code: int, session: Session, answer: Coroutine[Any, Any, Answer]) -> Performed:
        """Track a request that a transport continues by itself: counted and drained like others."""
        return self._started(self.rows[code], session, answer)

    def _started(
        self, row: Row, session: Session, waiting: Coroutine[Any, Any, Answer]
    ) -> "Future[Answer]":
        task = asyncio.get_running_loop().create_task(_finished(row, session, waiting))
        self._pending[task] = row

        def settle(done: "Future[Answer]") -> None:
            del self._pending[done]
            # A task that is cancelled before its first step never closes its coroutine.
            waiting.close()
            if not done.cancelled():
                done.exception()  # retrieved: the client may have disconnected

        task.add_done_callback(settle)
        return task

    def _promised(
        self,
        row: Row,
        session: Session,
        waited: "Future[Any]",
        make: Callable[[Any], Answer] = lambda found: found,
    ) -> "Future[Answer]":
        """The answer to a request whose work ends with a future: an append waiting for the disk, an
        operation on another shard.

        It is a separate future, because cancelling it must not cancel the append.
        """
        answer: Future[Answer] = waited.get_loop().create_future()
        self._pending[answer] = row

        def settle(done: "Future[Any]") -> None:
            del self._pending[answer]
            if answer.done():
                return
            if done.cancelled():
                answer.cancel()
                return
            fault = done.exception()
            if fault is None:
                answer.set_result(make(done.result()))
                return
            if isinstance(fault, Exception) and not isinstance(fault, BorzoiError):
                fault = _internal(row, session, fault)
            answer.set_exception(fault)
            answer.exception()  # retrieved: the client may have disconnected

        waited.add_done_callback(settle)
        return answer

    @property
    def waiting(self) -> int:
        """How many requests are running."""
        return len(self._pending)

    def pending(self) -> PendingRequests:
        """How many requests are running, by what they wait for."""
        rows = self._pending.values()
        passwords = sum(row.hashes for row in rows)
        polls = sum(row.waits for row in rows)
        return PendingRequests(passwords, polls, len(self._pending) - passwords - polls)

    def abandon(self, answer: "Future[Answer]") -> None:
        """The client of a running request has disconnected.

        Password hashing stops: otherwise a client could start any number of hashes by hanging up
        after each, and every other login would queue behind them. So does waiting for
        messages. Anything else is finished.
        """
        row = self._pending.get(answer)
        if row is not None and (row.hashes or row.waits):
            answer.cancel()

    async def drain(self) -> None:
        """Return when no request is running. Logins are cancelled: they may take long, and the
        client has to reconnect anyway."""
        for answer, row in list(self._pending.items()):
            if row.rule is Rule.ANYONE:
                answer.cancel()
        while self._pending:
            await asyncio.wait(self._pending)


#: Requests of a group's members, where they name no single consumer.
GROUP_REQUESTS: Final = (
    JoinConsumerGroup,
    LeaveConsumerGroup,
    PollMessages,
    StoreConsumerOffset,
    DeleteConsumerOffset,
)
#: Requests about the session itself.
REGISTERED_REQUESTS: Final = (GetMe, LoginUser, LoginWithPersonalAccessToken, LogoutUser)


def _row_of(request: type) -> Row:
    return next(row for row in COMMANDS if row.request is request)


SEND = _row_of(SendMessages)
POLL = _row_of(PollMessages)


def _admit(row: Row, session: Session, request: Request) -> None:
    if session.stale:
        _refuse_stale(session, request)
    if row.rule is Rule.ANYONE:
        return
    if session.user_id is None:
        raise Unauthenticated("log in first")


def _refuse_stale(session: Session, request: Request) -> None:
    """A session without pings has left its groups and is no longer registered. Requests that need
    either are rejected and end it, as on 0.8.0; others still work."""
    consumer = getattr(request, "consumer", None)
    if isinstance(request, GROUP_REQUESTS) and (
        consumer is None or consumer.kind is ConsumerKind.GROUP
    ):
        session.closing = True
        raise StaleClient("the session sent no ping for too long, so it has left its groups")
    if isinstance(request, REGISTERED_REQUESTS):
        session.closing = True
        raise ClientNotFound("the session sent no ping for too long, so it is not known any more")


async def _finished(row: Row, session: Session, waiting: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        return await waiting
    except BorzoiError:
        raise
    except Exception as fault:
        raise _internal(row, session, fault) from fault


def _internal(row: Row, session: Session, fault: Exception) -> ServerError:
    """Return the error for an internal fault; the log has the traceback."""
    name = row.request.__name__
    log.error("%s from %s failed", name, session.address, exc_info=fault)
    return ServerError(INTERNAL_ERROR, f"{name} failed inside the server")
