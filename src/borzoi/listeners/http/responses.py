"""Responses before they are HTTP bytes."""

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from borzoi.handlers.answers import Answer
from borzoi.protocol.commands.groups import CreateConsumerGroup, GroupDetails, GroupInfo
from borzoi.protocol.commands.streams import CreateStream, StreamDetails, StreamInfo
from borzoi.protocol.commands.system import Snapshot
from borzoi.protocol.commands.topics import CreateTopic, TopicDetails
from borzoi.protocol.rest.documents import encode_document
from borzoi.protocol.rest.errors import JSON, TEXT, ErrorAnswer
from borzoi.protocol.rest.routes import Route

NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
ZIP: Final = "application/zip"

Body: TypeAlias = bytes | AsyncIterator[bytes]
Headers: TypeAlias = list[tuple[bytes, bytes]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HttpResponse(msgspec.Struct):
    """A status, a body (whole or streamed), and its headers."""

    status: int = HTTPStatus.OK
    content_type: str = ""
    body: Any = b""
    headers: Headers = []
    #: The connection ends after it, because the rest of the call is not worth reading.
    closes: bool = False

    def head(self, more: Headers) -> Headers:
        """All headers of the response."""
        found = [*self.headers, *more]
        if self.content_type:
            found.append((b"content-type", self.content_type.encode("latin-1")))
        if isinstance(self.body, bytes) and self.status != HTTPStatus.NO_CONTENT:
            found.append((b"content-length", b"%d" % len(self.body)))
        if self.closes:
            found.append((b"connection", b"close"))
        return found


def text(sentence: str, status: int = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, TEXT, sentence.encode())


def document(body: bytes, status: int = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, JSON, body)


def failure(answer: ErrorAnswer) -> HttpResponse:
    allow = [(b"allow", ",".join(answer.allow).encode())] if answer.allow else []
    return HttpResponse(answer.status, answer.content_type, answer.body, allow)


def response_of(answer: Answer, route: Route) -> HttpResponse:
    """Return an answer as HTTP gives it; recordings of the published servers define where it
    differs from the wire."""
    if isinstance(answer, Snapshot):
        moment = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
        named = f'attachment; filename="iggy_snapshot_{moment}.zip"'.encode()
        return HttpResponse(
            route.status, ZIP, bytes(answer.archive), [(b"content-disposition", named)]
        )
    if answer is None or route.answer is None:
        return HttpResponse(route.status)
    if route.request in (CreateStream, CreateTopic, CreateConsumerGroup):
        answer = _as_described(answer)
    return document(encode_document(answer), route.status)


def _as_described(created: Answer) -> Answer:
    """Return what was created in the form of HTTP: in full, and with the initial segments of
    partitions, which the binary answer does not count."""
    match created:
        case StreamInfo():
            return StreamDetails(created.id, created.created_at, 0, 0, created.name, ())
        case GroupInfo():
            return GroupDetails(created.id, created.partitions_count, created.name, ())
        case TopicDetails(partitions=partitions):
            counted = tuple(msgspec.structs.replace(one, segments_count=1) for one in partitions)
            return msgspec.structs.replace(created, partitions=counted)
    return created


async def send_response(response: HttpResponse, more: Headers, send: Send) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": int(response.status),
            "headers": response.head(more),
        }
    )
    body = response.body
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return
    async for piece in body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
