"""What every transport can do, in both colours, and what those over TCP differ in."""

from collections.abc import Sequence
from typing import Protocol

from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame


class Wire(Protocol):
    """How frames lie in the bytes of a connection; sans-IO, and of one connection only."""

    @property
    def opening(self) -> bytes:
        """What is said before the first request; empty when nothing is."""

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent: the server has answered the opening and not said that it
        will close."""

    @property
    def unasked(self) -> bool:
        """Whether there is something to send although no program asked for it."""

    def take_unasked(self) -> bytes:
        """What that is; once."""

    def outgoing(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """What is sent for the frame of one request; answers come in the order of these calls.

        `FeatureUnavailable` when the request cannot be said at all.
        """

    def space(self) -> memoryview:
        """Where the next bytes belong; never empty."""

    @property
    def missing(self) -> int:
        """How much is still to come of an answer that has begun; 0 when that is not known."""

    def received(self, count: int) -> list[ResponseFrame]:
        """The answers that are whole now that so many bytes more are in `space()`."""


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

    def close(self) -> None:
        """End the connection; those who wait for an answer get `ClientClosed`."""
