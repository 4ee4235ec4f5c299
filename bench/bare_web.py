"""Bare HTTP applications on the stack that the server uses: uvicorn, httptools, uvloop.

Each route does one thing: `ping` answers a word, `send` decodes a body of JSON and forgets it.
"""

import asyncio
import json
import socket
from typing import Any

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


async def _ping(request: Request) -> Response:
    return PlainTextResponse("pong")


async def _send(request: Request) -> Response:
    json.loads(await request.body())
    return Response(status_code=201)


STARLETTE = Starlette(routes=[Route("/ping", _ping), Route("/send", _send, methods=["POST"])])


async def without_framework(scope: Any, receive: Any, send: Any) -> None:
    """The same routes with nothing in between, and with the decoder that the server uses."""
    status, body = 200, b"pong"
    if scope["path"] == "/send":
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message["body"])
            more = message["more_body"]
        msgspec.json.decode(b"".join(pieces))
        status, body = 201, b""
    length = str(len(body)).encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(name: str) -> None:
    app = STARLETTE if name == "starlette" else without_framework
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def served() -> None:
        print(sock.getsockname()[1], flush=True)
        await uvicorn.Server(config).serve(sockets=[sock])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(served())
