"""Calls and their answers, without a socket; the recorded ones are replayed in the system tests."""

import asyncio
import base64
import logging
from typing import Any

import pytest
from tests.support.embedded import EmbeddedServer, sent, with_topic
from tests.support.http_calls import Caller, app_of

from borzoi.listeners.http import polled as polled_module
from borzoi.listeners.http import responses as responses_module
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken
from borzoi.protocol.commands.users import CreateUser

MESSAGES = "/streams/s/topics/t/messages"


def message(payload: bytes) -> dict[str, Any]:
    return {"payload": base64.b64encode(payload).decode()}


def batch(*payloads: bytes) -> dict[str, Any]:
    return {
        "partitioning": {"kind": "partition_id", "value": "AAAAAA=="},
        "messages": [message(payload) for payload in payloads],
    }


async def test_messages_are_sent_and_polled(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        assert (await caller.post(MESSAGES, json=batch(b"one", b"two"))).status_code == 201
        polled = (await caller.get(MESSAGES)).json()
        assert polled["count"] == 2
        payloads = [base64.b64decode(each["payload"]) for each in polled["messages"]]
        assert payloads == [b"one", b"two"]


async def test_a_large_poll_is_answered_piece_by_piece_alike(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_topic(server)
    await sent(server, 50, size=100)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        here = (await caller.get(MESSAGES, params={"count": "50"})).json()
        monkeypatch.setattr(polled_module, "WRITTEN_AT_ONCE_BYTES_MAX", 10)
        monkeypatch.setattr(polled_module, "PIECE_MESSAGES", 7)
        there = (await caller.get(MESSAGES, params={"count": "50"})).json()
        assert here == there
        assert here["count"] == 50


async def test_an_empty_poll_names_no_partition(server: EmbeddedServer) -> None:
    await with_topic(server, messages=3)
    async with Caller(app_of(server)) as caller:
        await caller.login()
        polled = (await caller.get(MESSAGES, params={"value": "99"})).json()
        assert polled == {"partition_id": 0, "current_offset": 0, "count": 0, "messages": []}


async def test_each_caller_may_what_its_user_may(server: EmbeddedServer) -> None:
    await with_topic(server)
    await server.root().call(CreateUser("bob", "secret", UserStatus.ACTIVE, None))
    async with Caller(app_of(server)) as caller:
        assert (await caller.get("/streams")).status_code == 401
        await caller.login("bob", "secret")
        refused = await caller.get("/streams/s")
        assert (refused.status_code, refused.json()["id"]) == (403, 41)
        await caller.login()
        assert (await caller.get("/streams/s")).json()["topics_count"] == 1


async def test_a_personal_access_token_logs_in(server: EmbeddedServer) -> None:
    made = await server.root().call(CreatePersonalAccessToken("mine", 0))
    async with Caller(app_of(server)) as caller:
        answer = await caller.post("/personal-access-tokens/login", json={"token": made.token})
        token = answer.json()["access_token"]["token"]
        caller.headers["Authorization"] = f"Bearer {token}"
        assert [one["name"] for one in (await caller.get("/personal-access-tokens")).json()] == [
            "mine"
        ]
        assert (await caller.delete("/personal-access-tokens/mine")).status_code == 204
        assert (await caller.get("/personal-access-tokens")).status_code == 401


async def test_a_body_over_the_limit_is_refused_and_ends_the_connection(
    server: EmbeddedServer,
) -> None:
    async with Caller(app_of(server, MAX_REQUEST_SIZE="100 B")) as caller:
        refused = await caller.post("/users/login", json={"username": "x" * 100, "password": ""})
        assert refused.status_code == 413
        assert refused.headers["connection"] == "close"
        assert "100 bytes" in refused.text


async def test_metrics_are_where_the_settings_say(server: EmbeddedServer) -> None:
    async with Caller(app_of(server)) as caller:
        found = await caller.get("/metrics")
        assert found.headers["content-type"] == "text/plain; charset=utf-8"
        open_metrics = {"Accept": "application/openmetrics-text; version=1.0.0"}
        found = await caller.get("/metrics", headers=open_metrics)
        assert found.headers["content-type"].startswith("application/openmetrics-text")
        assert "http_requests_total 2\n" in found.text
    async with Caller(app_of(server, METRICS_ENDPOINT="/numbers")) as caller:
        assert (await caller.get("/metrics")).status_code == 404
        assert (await caller.get("/numbers")).status_code == 401  # only the known path is public
        await caller.login()
        assert (await caller.get("/numbers")).text.endswith("# EOF\n")
    async with Caller(app_of(server, METRICS_ENABLED="false")) as caller:
        assert (await caller.get("/metrics")).status_code == 404


async def test_without_cors_nothing_is_said_to_other_origins(server: EmbeddedServer) -> None:
    async with Caller(app_of(server, CORS_ENABLED="false")) as caller:
        assert "vary" not in (await caller.get("/ping")).headers
        assert (await caller.options("/streams")).status_code == 401
        assert (await caller.options("/ping")).status_code == 405
    async with Caller(app_of(server)) as caller:
        assert "allow" not in (await caller.options("/no/such/path")).headers


async def test_a_fault_of_ours_is_logged_and_told(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Caller(app_of(server)) as caller:
        await caller.login()
        monkeypatch.setattr(responses_module, "encode_document", None)
        with caplog.at_level(logging.ERROR):
            answer = await caller.get("/streams")
        assert answer.json()["id"] == 1
        assert "GET /streams failed" in caplog.text


async def test_who_hangs_up_while_a_password_is_checked_does_not_hold_the_line(
    server: EmbeddedServer,
) -> None:
    app = app_of(server)
    body = b'{"username":"iggy","password":"wrong"}'
    messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return messages.pop(0)

    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/users/login",
        "raw_path": b"/users/login",
        "query_string": b"",
        "client": ("::1", 1234),
        "headers": [(b"content-type", b"application/json")],
    }
    async with asyncio.timeout(30):
        await app(scope, receive, send)
        await server.dispatcher.drain()
    assert said == []
    assert server.dispatcher.waiting == 0
