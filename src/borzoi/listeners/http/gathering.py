"""A wrapper between uvicorn and its transport.

uvicorn writes the head and the body of an answer separately, and the transport sends each at once.
The head alone would wake the client, and cost both sides an extra system call per answer. Also,
uvicorn resumes reading after every answer, however many calls are pending.
"""

import asyncio
from typing import Any, Final

HEAD: Final = b"HTTP/1.1 "
#: An interim response has no body.
INTERIM: Final = HEAD + b"1"


class GatheredWrites:
    """A transport that keeps the head of an answer until the next write, which is its body, and
    does not read while `hold` is on."""

    __slots__ = ("_head", "_holding", "_paused", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        #: Whether uvicorn has paused reading, and whether we have.
        self._paused = False
        self._holding = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

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
        """Stop reading while this is on, even if uvicorn resumes."""
        if holding != self._holding:
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
