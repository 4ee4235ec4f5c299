from http import HTTPStatus

from borzoi.listeners.http.responses import HttpResponse, document, failure, text
from borzoi.protocol.rest.errors import NO_TOKEN, error_answer
from borzoi.protocol.rest.faults import unknown_method


def test_a_body_is_measured_and_named() -> None:
    assert document(b"{}").head([(b"a", b"b")]) == [
        (b"a", b"b"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
    ]
    assert (b"content-length", b"4") in text("pong").head([])


def test_no_content_has_no_length_and_a_stream_neither() -> None:
    assert HttpResponse(HTTPStatus.NO_CONTENT).head([]) == []

    async def pieces():
        yield b""

    assert HttpResponse(body=pieces()).head([]) == []


def test_an_answer_may_end_the_connection() -> None:
    assert (b"connection", b"close") in HttpResponse(closes=True).head([])


def test_errors_keep_their_status_and_their_methods() -> None:
    assert failure(NO_TOKEN) == HttpResponse(HTTPStatus.UNAUTHORIZED)
    refused = failure(error_answer(unknown_method(("GET", "HEAD"))))
    assert refused.headers == [(b"allow", b"GET,HEAD")]
