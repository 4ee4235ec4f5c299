"""The interface of a transport, and what moves with a connection to another process.

A transport accepts from its construction or start until `stop_accepting`. `server/listening.py`
creates one of each enabled kind. `tests/support/listener_conformance.py` has the tests that every
transport must pass.
"""

import socket
import ssl
from collections.abc import Callable, Collection
from typing import Protocol, TypedDict

from borzoi.handlers.sessions import Session, SessionRecord
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol
from borzoi.memory.pool import MemoryPool
from borzoi.model.value import Value


class ByteStreamArguments(TypedDict):
    """The arguments that all listeners of the binary protocol over byte streams take."""

    binary: BinaryProtocol
    pool: MemoryPool
    admission: Admission
    on_connect: Callable[[Session], None]
    on_disconnect: Callable[[Session], None]


class Detached(Value):
    """A live connection without an owner. The receiver closes the socket if it cannot adopt it."""

    sock: socket.socket
    record: SessionRecord
    #: Bytes that were read from the socket and belong to a request that has not run.
    unread: bytes


class Connection(Protocol):
    """One accepted connection."""

    def detach(self) -> Detached | None:
        """Give up the socket without ending the session, so that another process can adopt it.

        None when the connection cannot move now: a request or an answer is pending, the session is
        ending, or the transport keeps state that cannot move (TLS). It then stays as it is.

        The session is not reported as disconnected; the caller removes it from its registry.
        """

    def give_up(self, reason: str) -> None:
        """Close at once, dropping pending requests and answers."""


class Listener(Protocol):
    """Accepts connections and owns them until they end or are detached."""

    @property
    def address(self) -> tuple[str, int]:
        """The bound address; its port is the real one where 0 was asked for."""

    @property
    def connections(self) -> Collection[Connection]:
        """Open connections, those that only drain included."""

    def give_up_stalled(self, before: float) -> None:
        """Close stalled connections: nothing has moved since `before` (loop time) although a frame
        is incomplete, an answer is not read, or a close is not confirmed."""

    def stop_accepting(self) -> None:
        """Close the listening socket; connections stay."""

    def say_goodbye(self, farewell: bytes) -> None:
        """End every session. A pending request is still answered, and is the last one; the other
        clients get `farewell`, so the two cannot be confused."""

    def close(self) -> None:
        """Close everything at once, and release buffers."""


class Adopter(Protocol):
    """A listener that takes over detached connections."""

    def adopt(self, detached: Detached) -> Connection | None:
        """Continue where `detach` stopped. None when the connection limit is reached: the socket is
        closed then."""


class SecureListener(Listener, Protocol):
    """A transport over TLS."""

    async def start(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Accept connections from now on."""
