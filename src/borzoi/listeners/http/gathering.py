"""The head of an answer and its body in one packet.

uvicorn writes them one after the other, and the transport sends what it is given at once. The head
alone would wake the client, and cost it and us a system call more for each answer.
"""

import asyncio
from typing import Any, Final

HEAD: Final = b"HTTP/1.1 "
#: What only says that a client may go on has no body that would follow.
INTERIM: Final = HEAD + b"1"


class GatheredWrites:
    """A transport that keeps the head of an answer until the next write, which is its body."""

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data) if data else (head,))
        elif data.startswith(HEAD) and not data.startswith(INTERIM):
            self._head = data
        else:
            self._transport.write(data)

    def close(self) -> None:
        if self._head:
            self.write(b"")
        self._transport.close()
