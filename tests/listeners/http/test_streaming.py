"""Lines and events."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.embedded import EmbeddedServer, sent, with_topic
from tests.support.http_calls import Caller, app_of, http_listener

from borzoi.listeners.http import polled as polled_module
from borzoi.listeners.http import streaming
from borzoi.protocol.commands.topics import DeleteTopic

MESSAGES = "/streams/s/topics/t/messages"
NDJSON = "application/x-ndjson"


def line(payload: bytes) -> bytes:
    return json.dumps({"payload": base64.b64encode(payload).decode()}).encode() + b"\n"


def payloads(text: str) -> list[bytes]:
    return [base64.b64decode(json.loads(each)["payload"]) for each in text.splitlines()]


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_lines_are_sent_however_they_are_cut(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(streaming, "BATCH_MESSAGES", 3)
    await with_topic(server)
    data = b"\n" + b"".join(line(b"message %d" % number) for number in range(10)) + b" \r\n"
    async with Caller(app_of(server)) as caller:
        await caller.login()
        answer = await caller.post(
            MESSAGES + "?partition_id=1",
            content=in_pieces(data.rstrip(b"\n"), size),
            headers={"Content-Type": NDJSON},
        )
        assert (answer.status_code, answer.json()) == (201, {"messages_count": 10})
        polled = await caller.get(
            MESSAGES, params={"partition_id": "1", "count": "100"}, headers={"Accept": NDJSON}
        )
        assert polled.headers["content-type"] == NDJSON
        assert polled.headers["x-borzoi-partition-id"] == "1"
        assert polled.headers["x-borzoi-current-offset"] == "9"
        assert payloads(polled.text) == [b"message %d" % number for number in range(10)]


async def test_lines_go_by_key_or_in_turn(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        for query in ("", "?key=k", "?key=k"):
            answer = await caller.post(
                MESSAGES + query, content=line(b"x"), headers={"Content-Type": NDJSON}
            )
            assert answer.status_code == 201
        topic = (await caller.get("/streams/s/topics/t")).json()
        assert topic["messages_count"] == 3
        wrong = await caller.post(
            MESSAGES + "?partition_id=x", content=line(b"x"), headers={"Content-Type": NDJSON}
        )
        assert wrong.status_code == 400


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (b"{", 400),
        (b'{"payload": 1}', 422),
        (b'{"payload": ""}', 422),
        (b"x" * 200, 413),
    ],
)
async def test_the_first_wrong_line_ends_it_and_what_is_stored_is_told(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, last: bytes, status: int
) -> None:
    monkeypatch.setattr(streaming, "BATCH_MESSAGES", 2)
    await with_topic(server)
    async with Caller(app_of(server, MAX_REQUEST_SIZE="150 B")) as caller:
        await caller.login()
        answer = await caller.post(
            MESSAGES,
            content=in_pieces(line(b"x") * 5 + last, 50),
            headers={"Content-Type": NDJSON},
        )
        assert answer.status_code == status
        assert answer.headers["x-borzoi-messages-count"] == "4"


async def test_lines_for_nowhere_are_refused_with_words(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        headers = {"Content-Type": NDJSON}
        answer = await caller.post(
            "/streams/s/topics/nope/messages", content=line(b"x"), headers=headers
        )
        assert (answer.status_code, answer.json()["id"]) == (404, 2010)
        assert "nope" in answer.json()["reason"]


async def test_a_large_poll_is_written_as_lines_piece_by_piece_alike(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server)
    await sent(server, 20, size=10)
    monkeypatch.setattr(polled_module, "WRITTEN_AT_ONCE_BYTES_MAX", 100)
    monkeypatch.setattr(polled_module, "PIECE_MESSAGES", 7)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        polled = await caller.get(
            MESSAGES, params={"count": "20"}, headers={"Accept": f"text/plain, {NDJSON};q=0.9"}
        )
        assert payloads(polled.text) == [b"x" * 10] * 20


class Listening:
    """An event stream of a real connection, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def event(self) -> dict[str, str]:
        found: dict[str, str] = {}
        async with asyncio.timeout(20):
            async for text in self._lines:
                if not text:
                    return found
                name, _, value = text.partition(": ")
                found[name or "comment"] = value
        return found

    async def offsets(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            event = await self.event()
            assert event, "the stream ended"
            if "id" in event:
                assert json.loads(event["data"])["header"]["offset"] == int(event["id"])
                found.append(int(event["id"]))
        return found


async def test_messages_are_heard_as_they_come_and_resumed_where_one_stopped(
    server: EmbeddedServer,
) -> None:
    await with_topic(server)
    await sent(server, 3)
    app = app_of(server)
    async with http_listener(server, app=app) as listener, httpx.AsyncClient() as client:
        host, port = listener.address
        base = f"http://{host}:{port}"
        login = {"username": "iggy", "password": "iggy"}
        token = (await client.post(base + "/users/login", json=login)).json()["access_token"][
            "token"
        ]
        headers = {"Authorization": f"Bearer {token}"}
        address = base + MESSAGES + "/stream?kind=first&count=2"
        async with client.stream("GET", address, headers=headers) as response:
            assert response.headers["content-type"] == "text/event-stream"
            listening = Listening(response)
            assert await listening.offsets(3) == [0, 1, 2]
            await sent(server, 2)
            assert await listening.offsets(2) == [3, 4]
        headers["Last-Event-ID"] = "1"
        async with client.stream("GET", address, headers=headers) as response:
            assert await Listening(response).offsets(3) == [2, 3, 4]
        # As a browser does it, which cannot set headers here; the end of a topic is reported.
        async with client.stream("GET", f"{address}&access_token={token}") as response:
            listening = Listening(response)
            assert await listening.offsets(5) == [0, 1, 2, 3, 4]
            await server.root().call(DeleteTopic("s", "t"))
            event = await listening.event()
            while "comment" in event:
                event = await listening.event()
            assert event["event"] == "error"
            assert json.loads(event["data"])["id"] == 2010
        refused = await client.get(f"{base}/streams?access_token={token}")
        assert refused.status_code == 401
    async with asyncio.timeout(10):
        while server.dispatcher.waiting:
            await asyncio.sleep(0.001)


async def test_a_stop_and_a_logout_end_the_events(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "QUIET_MS", 50)
    await with_topic(server)
    app = app_of(server)
    async with http_listener(server, app=app) as listener, httpx.AsyncClient() as client:
        host, port = listener.address
        base = f"http://{host}:{port}"

        async def logged_in() -> dict[str, str]:
            login = {"username": "iggy", "password": "iggy"}
            answer: Any = (await client.post(base + "/users/login", json=login)).json()
            return {"Authorization": f"Bearer {answer['access_token']['token']}"}

        headers = await logged_in()
        async with client.stream("GET", base + MESSAGES + "/stream", headers=headers) as response:
            listening = Listening(response)
            assert (await listening.event())["comment"] == "nothing new"
            await client.delete(base + "/users/logout", headers=headers)
            while await listening.event():
                pass
        headers = await logged_in()
        async with client.stream("GET", base + MESSAGES + "/stream", headers=headers) as response:
            app.stopping.set()
            async with asyncio.timeout(10):
                await response.aread()


async def test_errors_before_the_first_event_have_their_status(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with Caller(app_of(server)) as caller:
        assert (await caller.get(MESSAGES + "/stream")).status_code == 401
        await caller.login()
        assert (await caller.get(MESSAGES + "/stream?partition_id=9")).status_code == 404
        assert (await caller.get(MESSAGES + "/stream?kind=nope")).status_code == 400
        assert (await caller.get(MESSAGES + "/stream?count=0")).status_code == 400
