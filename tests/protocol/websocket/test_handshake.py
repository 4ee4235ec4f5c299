import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.websocket.handshake import (
    HEAD_BYTES_MAX,
    accept_value,
    answer_once_whole,
    answer_to,
)

REQUEST = {
    "Host": "localhost:8092",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def head(first: str = "GET / HTTP/1.1", **changes: str | None) -> bytes:
    headers = REQUEST | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([first, *lines]).encode("latin-1")


def status(response: bytes) -> int:
    return int(response.split(b" ")[1])


def test_the_example_of_the_rfc() -> None:
    assert accept_value("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    answer = answer_to(head())
    assert answer.accepted
    assert status(answer.response) == 101
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer.response


@pytest.mark.parametrize(
    "request_head",
    [
        head("GET /any/path?and=query HTTP/1.1"),
        head(Upgrade="WebSocket", Connection="keep-alive, UPGRADE"),
        head(Sec_WebSocket_Protocol="chat", Sec_WebSocket_Extensions="permessage-deflate"),
        head(Origin="http://example.com"),
    ],
)
def test_what_clients_add_is_not_taken_up(request_head: bytes) -> None:
    answer = answer_to(request_head)
    assert answer.accepted
    assert b"Protocol" not in answer.response.partition(b"\r\n")[2]
    assert b"Extensions" not in answer.response


@pytest.mark.parametrize(
    ("request_head", "expected"),
    [
        (head("POST / HTTP/1.1"), 405),
        (head("GET / HTTP/1.0"), 400),
        (head("GET / HTTP/2"), 400),
        (head("GET /"), 400),
        (head("nonsense"), 400),
        (head(Upgrade=None), 426),
        (head(Upgrade="h2c"), 426),
        (head(Connection="close"), 426),
        (head(Sec_WebSocket_Version="8"), 426),
        (head(Sec_WebSocket_Key=None), 400),
        (head(Sec_WebSocket_Key="c2hvcnQ="), 400),
        (head(Sec_WebSocket_Key="no base64"), 400),
        (head(Host=None), 400),
        (head() + b"\r\nno header", 400),
    ],
)
def test_what_asks_for_no_websocket_is_answered_as_http(request_head: bytes, expected: int) -> None:
    answer = answer_to(request_head)
    assert not answer.accepted
    assert status(answer.response) == expected
    assert b"Connection: close\r\n" in answer.response
    assert (b"Sec-WebSocket-Version: 13" in answer.response) == (expected == 426)


def test_it_is_answered_once_it_is_whole() -> None:
    whole = head() + b"\r\n\r\n"
    for length in range(len(whole)):
        assert answer_once_whole(whole[:length]) is None
    answer = answer_once_whole(whole + b"\x82\x80")
    assert answer is not None
    assert answer.accepted
    assert answer.rest == b"\x82\x80"


def test_a_request_without_an_end_is_refused() -> None:
    assert answer_once_whole(b"x" * HEAD_BYTES_MAX) is None
    for endless in (b"x" * (HEAD_BYTES_MAX + 1), b"x" * (HEAD_BYTES_MAX + 1) + b"\r\n\r\n"):
        answer = answer_once_whole(endless)
        assert answer is not None
        assert status(answer.response) == 431


@given(st.binary(max_size=200))
def test_garbage_is_refused_in_a_line(data: bytes) -> None:
    answer = answer_to(data)
    assert not answer.accepted
    assert answer.response.startswith(b"HTTP/1.1 4")
