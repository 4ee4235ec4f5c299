# Made by tools/unasync.py from src/borzoi/client/_async/client.py: edit that one.
"""The client: one connection to a server, and a method for everything that a server can do."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from borzoi.client._sync.administration import Administration
from borzoi.client._sync.messaging import Messaging
from borzoi.client.connection_string import parse
from borzoi.client.options import Options


class Client(Administration, Messaging):
    """A connection to a server.

    >>> with Client("borzoi://iggy:iggy@localhost:8090") as client:  # doctest: +SKIP
    ...     client.send_messages("orders/events", [b"hello"])

    It logs in with the credentials of the connection string, connects again when the connection
    was lost, and may be used by many at the same time: their requests share the connection
    without waiting for each other's answers. Whoever makes it closes it; `with` does.

    `timeout` and `connect_timeout` are seconds and override those of the connection string: what
    any call may take, connecting again included, and what one attempt to connect may take.
    """

    def __init__(
        self,
        server: str | Options = "borzoi://127.0.0.1",
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> None:
        options = parse(server) if isinstance(server, str) else server
        if timeout is not None:
            options = replace(options, timeout=timeout)
        if connect_timeout is not None:
            options = replace(options, connect_timeout=connect_timeout)
        super().__init__(options)

    @property
    def options(self) -> Options:
        """What the client was told."""
        return self._options

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now; a call makes one when there is not."""
        return self._session.is_connected

    def connect(self, *, timeout: float | None = None) -> None:
        """Connect and log in; `with` does, and so does the first call."""
        self._session.connect(self._options.timeout if timeout is None else timeout)

    def close(self) -> None:
        """End the connection; calls that still wait for an answer get `ClientClosed`."""
        self._session.close()

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        addresses = ", ".join(map(str, self._options.addresses))
        state = "connected" if self.is_connected else "not connected"
        return f"<{type(self).__name__} {addresses}, {state}>"
