"""Responses before they are HTTP bytes."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import msgspec

from borzoi.protocol.rest.errors import JSON, TEXT, ErrorAnswer

NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"

Body: TypeAlias = bytes | AsyncIterator[bytes]
Headers: TypeAlias = list[tuple[bytes, bytes]]


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
