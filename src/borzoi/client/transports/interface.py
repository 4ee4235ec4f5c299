"""The interface of every transport, in both colours, and of the wire formats over TCP."""

from collections.abc import Sequence
from typing import Protocol

from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame


class Wire(Protocol):
    """The wire format of one connection: how its bytes carry frames; sans-IO."""

    @property
    def opening(self) -> bytes:
        """Bytes to send before the first request; may be empty."""

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent: the server has answered the opening and has not announced
        that it will close."""

    @property
    def unasked(self) -> bool:
        """Whether the protocol itself has something to send, such as a pong."""

    def take_unasked(self) -> bytes:
        """What that is; once."""

    def outgoing(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Return the bytes to send for one request; answers arrive in the order of these calls.

        `FeatureUnavailable` when this transport cannot express the request.
        """

    def space(self) -> memoryview:
        """The memory to receive the next bytes into; never empty."""

    @property
    def missing(self) -> int:
        """How many bytes of a started answer are missing; 0 when that is unknown."""

    def received(self, count: int) -> list[ResponseFrame]:
        """Return the answers that are complete after `count` more bytes in `space()`."""


class AsyncTransport(Protocol):
    """One connection on an event loop."""

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""

    async def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        """Send one frame and return its answer; tasks may do so concurrently.

        `ConnectionLost` when the connection ends first. After `RequestTimeout` the connection is
        closed, because an answer may still arrive. A task that is cancelled while it
        waits leaves the connection open: its answer is discarded on arrival.
        """

    async def close(self) -> None:
        """Close the connection; pending calls raise `ClientClosed`."""


class Transport(Protocol):
    """One connection with blocking calls; threads may share it."""

    @property
    def is_open(self) -> bool:
        """Whether a request can still be sent."""

    def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        """Send one frame and return its answer; threads may do so concurrently.

        `ConnectionLost` when the connection ends first. After `RequestTimeout`, or an exception
        from outside such as KeyboardInterrupt, the connection is closed, because an answer may
        still arrive.
        """

    def close(self) -> None:
        """Close the connection; pending calls raise `ClientClosed`."""
