"""What every transport can do, in both colours."""

from collections.abc import Sequence
from typing import Protocol

from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame


class AsyncTransport(Protocol):
    """One connection on an event loop."""

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""

    async def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        """Send one frame and wait for its answer; others may do so at the same time.

        `ConnectionLost` when the connection ends first. After `RequestTimeout` the connection is
        closed, because an answer may still be on its way. A task that is cancelled while it waits
        leaves the connection as it is: its answer is dropped when it comes.
        """

    def reuse(self, payload: bytes | memoryview) -> None:
        """Take back the memory of an answer."""

    async def close(self) -> None:
        """End the connection; those who wait for an answer get `ClientClosed`."""


class Transport(Protocol):
    """One connection with blocking calls; threads may share it."""

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""

    def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        """Send one frame and wait for its answer; other threads may do so at the same time.

        `ConnectionLost` when the connection ends first. After `RequestTimeout`, or an exception
        from outside such as KeyboardInterrupt, the connection is closed, because an answer may
        still be on its way.
        """

    def reuse(self, payload: bytes | memoryview) -> None:
        """Take back the memory of an answer."""

    def close(self) -> None:
        """End the connection; those who wait for an answer get `ClientClosed`."""
