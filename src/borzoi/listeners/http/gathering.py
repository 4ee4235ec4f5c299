"""What stands between uvicorn and a transport.

uvicorn writes the head of an answer and its body one after the other, and the transport sends what
it is given at once. The head alone would wake the client, and cost it and us a system call more for
each answer. And uvicorn reads on after every answer, however many calls are waiting already.
"""

import asyncio
from typing import Any, Final

HEAD: Final = b"HTTP/1.1 "
#: What only says that a client may go on has no body that would follow.
INTERIM: Final = HEAD + b"1"


class GatheredWrites:
    """A transport that keeps the head of an answer until the next write, which is its body, and
    does not read while it is told to hold."""

    __slots__ = ("_head", "_holding", "_paused", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        #: Whether somebody else wants to read nothing, and whether we do.
        self._paused = False
        self._holding = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        elif data.startswith(HEAD) and not data.startswith(INTERIM):
            self._head = data
        else:
            self._transport.write(data)

    def pause_reading(self) -> None:
        self._read(paused=True, holding=self._holding)

    def resume_reading(self) -> None:
        self._read(paused=False, holding=self._holding)

    def hold_reading(self, holding: bool) -> None:
        """Nothing more is read while this is on, whoever resumes it."""
        self._read(paused=self._paused, holding=holding)

    def _read(self, *, paused: bool, holding: bool) -> None:
        was_reading, reads = not (self._paused or self._holding), not (paused or holding)
        self._paused, self._holding = paused, holding
        if was_reading == reads or self._transport.is_closing():
            return
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def flush(self) -> None:
        """The answer is complete; one to `HEAD` has no body."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        self._transport.close()
