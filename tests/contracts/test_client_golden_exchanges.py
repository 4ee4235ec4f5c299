"""Every method of the client sends the recorded request and reads the recorded answer.

A recorded request is turned into the call that a program would write; what arrives is compared with
the recording, and the recorded answer is given back.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.golden import Exchange, read_exchanges
from tests.support.scripted_server import Asked, ScriptedServer, scripted

from borzoi.client import AsyncClient, Client, NewMessage, Polled
from borzoi.client.connection_string import parse
from borzoi.client.options import Reconnection
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import BorzoiError
from borzoi.model.partitioning import PartitioningKind
from borzoi.protocol.catalog import REQUESTS, decode_request, decode_response
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.contract import Request
from borzoi.protocol.errors import row_of
from borzoi.protocol.framing import PREFIX_BYTES, encode_response
from borzoi.records.message import decode_messages
from borzoi.records.user_headers import HeaderKind

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FRAME_BYTES_MAX = 1 << 20


def topic(request: Any) -> tuple[Any, Any]:
    return request.stream_id, request.topic_id


def who(request: Any) -> dict[str, Any]:
    is_group = request.consumer.kind is ConsumerKind.GROUP
    return {"group" if is_group else "consumer": request.consumer.id}


def where(request: Any) -> dict[str, Any]:
    partitioning = request.partitioning
    if partitioning.kind is PartitioningKind.PARTITION_ID:
        return {"partition": partitioning.partition_id}
    return {"key": partitioning.value} if partitioning.value else {}


def settings(request: Any) -> dict[str, Any]:
    return {
        "compression": request.compression,
        "message_expiry": request.message_expiry,
        "max_size": request.max_topic_size,
        "replication_factor": request.replication_factor,
    }


def to_send(request: Any) -> list[NewMessage]:
    return [
        NewMessage(
            each.payload,
            {str(key.value): value for key, value in each.headers.items()},
            each.id,
        )
        for each in decode_messages(request.messages)
    ]


#: Request → the positional and the named arguments of the method of its name.
CALLS: dict[Code, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    Code.GET_SNAPSHOT: lambda r: ((r.kinds,), {"compression": r.compression}),
    Code.GET_CLIENT: lambda r: ((r.client_id,), {}),
    Code.LOGIN_USER: lambda r: ((r.username, r.password), {}),
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: lambda r: ((r.token,), {}),
    Code.CREATE_USER: lambda r: (
        (r.username, r.password),
        {"status": r.status, "permissions": r.permissions},
    ),
    Code.UPDATE_USER: lambda r: ((r.user_id,), {"username": r.username, "status": r.status}),
    Code.UPDATE_PERMISSIONS: lambda r: ((r.user_id, r.permissions), {}),
    Code.CHANGE_PASSWORD: lambda r: ((r.user_id, r.current_password, r.new_password), {}),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: lambda r: ((r.name,), {"expiry": r.expiry}),
    Code.DELETE_PERSONAL_ACCESS_TOKEN: lambda r: ((r.name,), {}),
    Code.CREATE_STREAM: lambda r: ((r.name,), {}),
    Code.UPDATE_STREAM: lambda r: ((r.stream_id, r.name), {}),
    Code.CREATE_TOPIC: lambda r: (
        ((r.stream_id, r.name),),
        {"partitions": r.partitions_count, **settings(r)},
    ),
    Code.UPDATE_TOPIC: lambda r: ((topic(r), r.name), settings(r)),
    Code.CREATE_PARTITIONS: lambda r: ((topic(r), r.partitions_count), {}),
    Code.DELETE_PARTITIONS: lambda r: ((topic(r), r.partitions_count), {}),
    Code.DELETE_SEGMENTS: lambda r: ((topic(r), r.partition_id, r.segments_count), {}),
    Code.CREATE_CONSUMER_GROUP: lambda r: ((topic(r), r.name), {}),
    Code.POLL_MESSAGES: lambda r: (
        (topic(r),),
        {
            "partition": r.partition_id,
            "start": r.strategy,
            "count": r.count,
            "commit": r.auto_commit,
            **who(r),
        },
    ),
    Code.SEND_MESSAGES: lambda r: ((topic(r), to_send(r)), where(r)),
    Code.FLUSH_UNSAVED_BUFFER: lambda r: ((topic(r), r.partition_id), {"fsync": r.fsync}),
    Code.GET_CONSUMER_OFFSET: lambda r: ((topic(r),), {"partition": r.partition_id, **who(r)}),
    Code.STORE_CONSUMER_OFFSET: lambda r: (
        (topic(r), r.offset),
        {"partition": r.partition_id, **who(r)},
    ),
    Code.DELETE_CONSUMER_OFFSET: lambda r: ((topic(r),), {"partition": r.partition_id, **who(r)}),
}


def arguments(request: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if request.CODE in CALLS:
        return CALLS[request.CODE](request)
    # The rest only names what it is about.
    if hasattr(request, "group_id"):
        return (topic(request), request.group_id), {}
    if hasattr(request, "topic_id"):
        return (topic(request),), {}
    return tuple(getattr(request, name) for name in request.__struct_fields__), {}


def recorded() -> Iterator[tuple[Exchange, Request]]:
    """The exchanges that a well-behaved client can have."""
    for exchange in read_exchanges(GOLDEN):
        size = sum(len(part) * times for part, times in exchange.runs)
        if exchange.closes or exchange.status is None or size > FRAME_BYTES_MAX:
            continue
        if exchange.truncated or exchange.code is None or exchange.code not in REQUESTS:
            continue
        try:
            request = decode_request(exchange.code, exchange.frame[PREFIX_BYTES:])
            is_sendable = exchange.code != Code.SEND_MESSAGES or can_be_sent(request)
            # The real server stored messages that no published client can read either.
            read(exchange, request)
        except BorzoiError:
            continue
        if is_sendable:
            yield exchange, request


def can_be_sent(request: Any) -> bool:
    """Whether our client would make such a batch: no offsets, and texts as keys of headers."""
    messages = decode_messages(request.messages)
    return len(messages) == request.messages_count > 0 and all(
        not message.offset and all(key.kind is HeaderKind.STRING for key in message.headers)
        for message in messages
    )


def plain(request: Any) -> Any:
    """The parts of a request that do not depend on the time or the client."""
    if request.CODE == Code.SEND_MESSAGES:
        bare = [(each.payload, each.id, each.headers) for each in decode_messages(request.messages)]
        return topic(request), request.partitioning, bare
    if request.CODE == Code.LOGIN_USER:
        return request.username, request.password
    return request


def read(exchange: Exchange, request: Request) -> Any:
    """What the method of the client should return."""
    answer: Any = decode_response(type(request), exchange.payload)
    if isinstance(answer, PolledMessages):
        return [each.payload for each in decode_messages(answer.messages)]
    fields: tuple[str, ...] = getattr(answer, "__struct_fields__", ())
    return getattr(answer, fields[0]) if len(fields) == 1 else answer


def same(returned: Any) -> Any:
    if isinstance(returned, Polled):
        return [message.payload for message in returned]
    return returned


def outcome(call: Callable[[], Any]) -> tuple[Any, BorzoiError | None]:
    try:
        return call(), None
    except BorzoiError as fault:
        return None, fault


def check(server: ScriptedServer, call: Callable[..., Any], answer: list[bytes]) -> set[int]:
    """Every exchange, by a function that makes the call of a name; the codes that were seen."""
    seen = set()
    for exchange, request in recorded():
        assert exchange.code is not None
        assert exchange.status is not None
        answer[:] = [encode_response(exchange.status, exchange.payload)]
        positional, named = arguments(request)
        server.asked.clear()
        step = f"{exchange.seq} {exchange.command}: {exchange.step}"
        returned, fault = outcome(partial(call, request.CODE.name.lower(), *positional, **named))
        if fault is None:
            assert exchange.status == 0, step
            assert same(returned) == read(exchange, request), step
        else:
            assert fault.code == exchange.status, step
            assert isinstance(fault, row_of(exchange.status).error), step
        (asked,) = server.asked
        assert plain(decode_request(asked.code, asked.payload)) == plain(request), step
        seen.add(exchange.code)
    return seen


@pytest.fixture
def answer() -> list[bytes]:
    return [b""]


@pytest.fixture
def server(answer: list[bytes]) -> Iterator[ScriptedServer]:
    def script(_: Asked) -> bytes:
        return answer[0]

    with scripted(script) as running:
        yield running


def options_of(server: ScriptedServer) -> Any:
    host, port = server.address
    quiet = parse(f"iggy://{host}:{port}?heartbeat_interval=0")
    return replace(quiet, reconnection=Reconnection(enabled=False))


def test_the_blocking_client_says_and_reads_what_was_recorded(
    server: ScriptedServer, answer: list[bytes]
) -> None:
    with Client(options_of(server)) as client:
        seen = check(server, lambda name, *a, **k: getattr(client, name)(*a, **k), answer)
    assert seen == set(REQUESTS)


def test_the_asynchronous_client_says_and_reads_what_was_recorded(
    server: ScriptedServer, answer: list[bytes]
) -> None:
    with asyncio.Runner() as runner:
        client = AsyncClient(options_of(server))

        def call(name: str, *positional: Any, **named: Any) -> Any:
            return runner.run(partial(getattr(client, name), *positional, **named)())

        seen = check(server, call, answer)
        runner.run(client.close())
    assert seen == set(REQUESTS)
