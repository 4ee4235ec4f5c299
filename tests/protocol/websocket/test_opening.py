"""A client opens a WebSocket: the server's side of it understands, and what else may answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import InvalidVersion
from borzoi.protocol.websocket.handshake import HEAD_BYTES_MAX, answer_once_whole
from borzoi.protocol.websocket.opening import opened_once_whole, opening

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def answer() -> bytes:
    found = answer_once_whole(opening("localhost:8092", KEY))
    assert found is not None
    assert found.accepted
    return found.response


def test_both_sides_understand_each_other() -> None:
    opened = opened_once_whole(answer() + b"more", KEY)
    assert opened is not None
    assert opened.rest == b"more"


def test_an_answer_is_waited_for() -> None:
    whole = answer()
    for size in range(len(whole)):
        assert opened_once_whole(whole[:size], KEY) is None


@pytest.mark.parametrize(
    "wrong",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"x" * (HEAD_BYTES_MAX + 1),
    ],
)
def test_what_opens_nothing_is_told(wrong: bytes) -> None:
    with pytest.raises(InvalidVersion):
        opened_once_whole(wrong, KEY)


@given(st.binary(max_size=200))
def test_garbage_opens_nothing(data: bytes) -> None:
    try:
        assert opened_once_whole(data, KEY) is None
    except InvalidVersion:
        return
