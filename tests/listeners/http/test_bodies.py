import asyncio
from asyncio import Future
from collections.abc import MutableMapping
from typing import Any

import pytest

from borzoi.listeners.http import bodies
from borzoi.listeners.http.bodies import PeerDisconnected, TooLarge, Upload
from borzoi.protocol.rest.faults import HttpFault

GONE = {"type": "http.disconnect"}


class Script:
    """What the server below us would hand out, one message after the other."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = list(messages)
        self.taken = 0

    async def __call__(self) -> MutableMapping[str, Any]:
        if self.taken == len(self._messages):
            await asyncio.Event().wait()
        self.taken += 1
        return self._messages[self.taken - 1]


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


async def test_a_body_is_gathered_up_to_its_limit() -> None:
    for messages in ([body(b"12345")], [body(b"12", more=True), body(b"345")]):
        assert await Upload(Script(*messages), {}).whole(5) == b"12345"
        with pytest.raises(TooLarge, match="more than 4 bytes"):
            await Upload(Script(*messages), {}).whole(4)
    assert await Upload(Script(body(b"")), {}).whole(0) == b""


async def test_what_is_far_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "THROWN_AWAY_BYTES_MAX", 10)
    announced = Script(body(b"x" * 100))
    with pytest.raises(TooLarge):
        await Upload(announced, {"content-length": "100"}).whole(5)
    assert announced.taken == 0
    endless = Script(*[body(b"x" * 4, more=True)] * 100)
    with pytest.raises(TooLarge):
        await Upload(endless, {}).whole(5)
    assert endless.taken == 4


async def test_a_client_that_goes_in_the_middle_is_noticed() -> None:
    with pytest.raises(PeerDisconnected):
        await Upload(Script(body(b"half", more=True), GONE), {}).whole(100)


async def test_an_answer_is_waited_for_as_long_as_the_client_does() -> None:
    loop = asyncio.get_running_loop()
    abandoned: list[Future[int]] = []
    answer: Future[int] = loop.create_future()
    loop.call_soon(answer.set_result, 7)
    assert await Upload(Script(body(b"")), {}).waited(answer, abandoned.append) == 7
    unanswered: Future[int] = loop.create_future()
    with pytest.raises(PeerDisconnected):
        await Upload(Script(body(b""), GONE), {}).waited(unanswered, abandoned.append)
    assert abandoned == [unanswered]
    assert not unanswered.cancelled()


async def test_an_answer_that_was_called_off_is_told() -> None:
    answer: Future[int] = asyncio.get_running_loop().create_future()
    answer.cancel()
    with pytest.raises(HttpFault, match="stops"):
        await Upload(Script(), {}).waited(answer, lambda _: None)
