"""Calls to requests, answers to responses: an ASGI application over `Dispatcher.perform`.

The order of checks is that of the published servers: preflights, the token, path and method, then
the validation in `protocol/rest/calls.py`, then the handlers.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import nullcontext
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import msgspec

from borzoi import __version__
from borzoi.handlers.answers import Answer, Delivery
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.sessions import Session
from borzoi.listeners.http import polled
from borzoi.listeners.http.authentication import BEARER, Authenticator, Caller, stranger
from borzoi.listeners.http.bodies import PeerDisconnected, Receive, TooLarge, Upload
from borzoi.listeners.http.cors import Cors, preflight
from borzoi.listeners.http.metrics import Metrics
from borzoi.listeners.http.responses import (
    EVENTS,
    NDJSON,
    Headers,
    HttpResponse,
    Send,
    document,
    failure,
    response_of,
    send_response,
    text,
)
from borzoi.listeners.http.streaming import Following, Lines, Uploaded
from borzoi.listeners.unfinished import COUNTED_BYTES_MIN, Unfinished
from borzoi.model.errors import (
    BorzoiError,
    InvalidAccessToken,
    InvalidCredentials,
    InvalidPassword,
    InvalidUsername,
    ServerError,
)
from borzoi.model.value import Value
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.users import LoginUser, LogoutUser
from borzoi.protocol.contract import Request
from borzoi.protocol.rest import faults
from borzoi.protocol.rest.calls import Match, match
from borzoi.protocol.rest.documents import encode_document
from borzoi.protocol.rest.errors import JSON, NO_TOKEN, TEXT, error_answer
from borzoi.protocol.rest.faults import HttpFault
from borzoi.protocol.rest.messages import SendInput, partitioning_in
from borzoi.protocol.rest.openapi import openapi
from borzoi.protocol.rest.routes import (
    PUBLIC_PATHS,
    FollowMessages,
    GetDescription,
    GetGuide,
    GetLiveness,
    GetMetrics,
    GetReadiness,
    RefreshToken,
    Welcome,
)
from borzoi.telemetry.exposition import CONTENT_TYPE as OPENMETRICS

log = logging.getLogger(__name__)

Scope: TypeAlias = MutableMapping[str, Any]

#: Small bodies are not counted; entering `Unfinished.room` takes longer than finding that out.
_UNCOUNTED: Final = nullcontext()
GUIDE: Final = Path(__file__).parent / "assets" / "docs.html"


class HttpOptions(Value):
    """The settings for calls."""

    body_bytes_max: int = 2_000_000
    cors: Cors | None = Cors()
    #: None disables them.
    metrics_path: str | None = "/metrics"


class Incoming(Value):
    """An authenticated call: its caller and its input."""

    caller: Caller
    found: Match
    query: str
    headers: Mapping[str, str]
    upload: Upload

    @property
    def session(self) -> Session:
        return self.caller.session


class HttpApp:
    """Answers the calls of all HTTP connections of one shard."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        authenticator: Authenticator,
        options: HttpOptions,
        *,
        metrics: Metrics,
        unfinished: Unfinished,
    ) -> None:
        self._dispatcher = dispatcher
        self._unfinished = unfinished
        self._authenticator = authenticator
        self._options = options
        self._metrics = metrics
        metrics.sources.calls = lambda: self.calls
        self._clock = dispatcher.services.clock
        #: Calls since the start.
        self.calls = 0
        #: The headers about other origins; None when they depend on the origin of the call.
        self._cors_headers: Headers | None = []
        if options.cors is not None:
            constant = options.cors.is_same_for_all
            self._cors_headers = options.cors.on_every_answer(None) if constant else None
        #: The requests with an HTTP-specific answer; all others return a document or nothing.
        self._own: Mapping[type, Callable[[Any, Incoming], Awaitable[HttpResponse]]] = {
            Welcome: self._welcome,
            Ping: self._ping,
            GetMetrics: self._get_metrics,
            LoginUser: self._log_in,
            LoginWithPersonalAccessToken: self._log_in,
            RefreshToken: self._refresh,
            LogoutUser: self._log_out,
            GetLiveness: self._get_liveness,
            GetReadiness: self._get_readiness,
            GetDescription: self._get_description,
            GetGuide: self._get_guide,
            FollowMessages: self._follow,
            PollMessages: self._poll,
        }
        #: Set when the server shuts down; streaming responses end then.
        self.stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        self.calls += 1
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        more = self._cors_headers
        if more is None:
            assert self._options.cors is not None
            more = self._options.cors.on_every_answer(headers.get("origin"))
        try:
            response = await self._response(scope, headers, receive)
        except PeerDisconnected:
            return
        except Exception as fault:
            log.exception("%s %s failed", scope["method"], scope["path"])
            response = failure(error_answer(ServerError(1, type(fault).__name__)))
        try:
            await send_response(response, more, send)
        except PeerDisconnected:
            return

    async def _response(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive
    ) -> HttpResponse:
        method, path = scope["method"], scope["raw_path"].decode("ascii")
        cors = self._options.cors
        if method == "OPTIONS" and cors is not None:
            return preflight(path, headers, cors)
        address = _address(scope)
        query = scope["query_string"].decode("latin-1")
        try:
            if path in PUBLIC_PATHS:
                caller = stranger(address)
            else:
                authorization = headers.get("authorization") or _token_in(path, query)
                caller = await self._authenticator.caller(authorization, address)
        except InvalidAccessToken:
            return failure(NO_TOKEN)
        try:
            found = self._matched(method, path)
        except HttpFault as fault:
            return failure(error_answer(fault))
        upload = Upload(receive, headers)
        return await self._answer(Incoming(caller, found, query, headers, upload))

    def _matched(self, method: str, path: str) -> Match:
        metrics_path = self._options.metrics_path
        if path == metrics_path and path != "/metrics":
            path = "/metrics"
        elif path == "/metrics" and metrics_path != path:
            raise faults.unknown_path()
        return match(method, path)

    async def _answer(self, call: Incoming) -> HttpResponse:
        request: Any = None
        try:
            if call.found.route.request is SendMessages and _says(call, "content-type", NDJSON):
                return await self._send_lines(call)
            limit = self._options.body_bytes_max
            if call.found.route.body is None:
                request = call.found.request(call.query, now=self._clock())
                return await self._answered(request, call)
            self._check_large_send(call)
            announced = call.upload.announced(limit)
            counted = announced >= COUNTED_BYTES_MIN
            async with self._unfinished.room(announced) if counted else _UNCOUNTED:
                body = await call.upload.whole(limit)
                content_type = call.headers.get("content-type")
                request = call.found.request(call.query, content_type, body, now=self._clock())
                return await self._answered(request, call)
        except BorzoiError as fault:
            return _failure(fault, request)

    def _check_large_send(self, call: Incoming) -> None:
        """Reject a send without permission before its body is read, unless the body is small."""
        announced = call.upload.announced(COUNTED_BYTES_MIN)
        if call.found.route.request is SendMessages and announced >= COUNTED_BYTES_MIN:
            self._dispatcher.check_send(call.session, **call.found.identifiers())

    async def _answered(self, request: Any, call: Incoming) -> HttpResponse:
        own = self._own.get(type(request))
        if own is not None:
            return await own(request, call)
        answer = await self._performed(request, call)
        return response_of(answer, call.found.route)

    async def _performed(
        self, request: Request, call: Incoming, *, uploading: bool = False
    ) -> Answer:
        """Return the answer. While the client still uploads, disconnects are not watched for: that
        would consume pieces of its body."""
        started = perf_counter_ns()
        try:
            answer = self._dispatcher.perform(call.session, request)
            if not isinstance(answer, Future):
                return answer
            if uploading:
                return await asyncio.shield(answer)
            return await call.upload.waited(answer, self._dispatcher.abandon)
        finally:
            command = request.CODE.name.lower()
            self._dispatcher.times.observe(command, "http", perf_counter_ns() - started)

    # HTTP-specific answers.

    async def _welcome(self, request: Welcome, call: Incoming) -> HttpResponse:
        return text("Iggy API")

    async def _ping(self, request: Ping, call: Incoming) -> HttpResponse:
        await self._performed(request, call)
        return text("pong")

    async def _get_metrics(self, request: GetMetrics, call: Incoming) -> HttpResponse:
        asked = call.headers.get("accept", "")
        kind = OPENMETRICS if "application/openmetrics-text" in asked else TEXT
        return HttpResponse(HTTPStatus.OK, kind, await self._metrics.text())

    async def _get_liveness(self, request: GetLiveness, call: Incoming) -> HttpResponse:
        return text("alive")

    async def _get_readiness(self, request: GetReadiness, call: Incoming) -> HttpResponse:
        if self.stopping.is_set():
            return text("stopping", HTTPStatus.SERVICE_UNAVAILABLE)
        return text("ready")

    async def _get_description(self, request: GetDescription, call: Incoming) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, JSON, description())

    async def _get_guide(self, request: GetGuide, call: Incoming) -> HttpResponse:
        page = await asyncio.to_thread(GUIDE.read_bytes)
        return HttpResponse(HTTPStatus.OK, call.found.route.media, page)

    async def _poll(self, request: PollMessages, call: Incoming) -> HttpResponse:
        answer = await self._performed(request, call)
        assert isinstance(answer, Delivery)
        if not _says(call, "accept", NDJSON):
            return _written(polled.document(answer), answer, call, JSON)
        headers = [
            (b"x-borzoi-partition-id", b"%d" % answer.partition_id),
            (b"x-borzoi-current-offset", b"%d" % answer.current_offset),
        ]
        return _written(polled.lines(answer), answer, call, NDJSON, headers)

    async def _send_lines(self, call: Incoming) -> HttpResponse:
        """One message a line; where they go is in the query."""

        request: SendMessages | None = None

        def request_of(given: SendInput) -> SendMessages:
            nonlocal request
            made: SendMessages = call.found.with_arguments(given.arguments(now=self._clock()))
            request = made
            return made

        lines = Lines(partitioning_in(call.query), self._options.body_bytes_max)
        try:
            await lines.send(
                call.upload.pieces(),
                request_of,
                lambda request: self._performed(request, call, uploading=True),
            )
        except BorzoiError as fault:
            response = _failure(fault, request)
            # Report how much was stored, so that a client can continue after it.
            response.headers.append((b"x-borzoi-messages-count", b"%d" % lines.stored))
            response.closes = True
            return response
        body = msgspec.json.encode(Uploaded(lines.stored))
        return document(body, HTTPStatus.CREATED)

    async def _follow(self, request: FollowMessages, call: Incoming) -> HttpResponse:
        following = Following(request, call.headers.get("last-event-id"))
        first = await self._performed(following.poll(0), call)
        assert isinstance(first, Delivery)
        events = following.events(
            first,
            lambda poll: self._performed(poll, call),
            lambda: not self.stopping.is_set() and self._authenticator.is_still_good(call.caller),
        )
        headers = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        return HttpResponse(HTTPStatus.OK, EVENTS, events, headers)

    async def _log_in(
        self, request: LoginUser | LoginWithPersonalAccessToken, call: Incoming
    ) -> HttpResponse:
        try:
            await self._performed(request, call)
        except (InvalidUsername, InvalidPassword):
            # Like the published servers, do not say which of the two is wrong.
            raise InvalidCredentials("user name and password do not match") from None
        return document(encode_document(self._authenticator.identity(call.session)))

    async def _refresh(self, request: RefreshToken, call: Incoming) -> HttpResponse:
        identity = await self._authenticator.refreshed(request.token, call.session.address)
        return document(encode_document(identity))

    async def _log_out(self, request: LogoutUser, call: Incoming) -> HttpResponse:
        await self._performed(request, call)
        await self._authenticator.give_back(call.caller)
        return HttpResponse(HTTPStatus.NO_CONTENT)


def _failure(fault: BorzoiError, request: object) -> HttpResponse:
    response = failure(error_answer(fault, request))
    response.closes = isinstance(fault, TooLarge)
    return response


def _says(call: Incoming, name: str, media: str) -> bool:
    """Whether a header names the content type."""
    value = call.headers.get(name, "")
    return media in value and media in (part.partition(";")[0].strip() for part in value.split(","))


def _token_in(path: str, query: str) -> str | None:
    """Browsers cannot set headers on an event stream; the token is in the query then."""
    if not path.endswith("/messages/stream"):
        return None
    tokens = parse_qs(query).get("access_token")
    return None if tokens is None else BEARER + tokens[0]


@cache
def description() -> bytes:
    """Return a description of all routes, built on first use."""
    return msgspec.json.encode(openapi(__version__))


def _written(
    pieces: Iterator[bytes],
    delivery: Delivery,
    call: Incoming,
    media: str,
    headers: Headers | None = None,
) -> HttpResponse:
    """Return polled messages as text: whole, or streamed when there are many."""
    at_once = polled.is_written_at_once(delivery)
    body = b"".join(pieces) if at_once else polled.while_wanted(pieces, call.upload)
    return HttpResponse(HTTPStatus.OK, media, body, headers or [])


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else _address_text(*client)


@lru_cache(maxsize=1024)
def _address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
