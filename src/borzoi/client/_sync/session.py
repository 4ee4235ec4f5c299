# Made by tools/unasync.py from src/borzoi/client/_async/session.py: edit that one.
"""The connection of a client: opened on demand, reopened when it was lost."""

import time
from collections.abc import Sequence
from typing import Final

from borzoi import __version__
from borzoi.client._colours import Repeater, Shared, sleep
from borzoi.client.advice import error_answered
from borzoi.client.options import Address, Credentials, Options, Password
from borzoi.client.reconnection import (
    GOODBYE,
    REDIRECTS_MAX,
    REPEATS_MAX,
    STALE,
    UNAUTHENTICATED,
    pauses,
    redirected,
)
from borzoi.client.transports.dialling import dial
from borzoi.client.transports.interface import Transport
from borzoi.model.errors import (
    BorzoiError,
    CannotConnect,
    ClientClosed,
    ConnectionLost,
    Disconnected,
    NotFound,
    RequestTimeout,
)
from borzoi.protocol.buffers import Buffer, Reader
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.system import ClusterMetadata, GetClusterMetadata, Ping
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import encode_request

#: How the client identifies itself at login.
CLIENT_CONTEXT: Final = "borzoi-python"


class Session:
    """One connection at a time, and the state to restore on the next one."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._transport: Transport | None = None
        self._connecting: Shared[Transport] = Shared()
        self._heartbeat: Repeater | None = None
        self._was_connected = False
        self._is_closed = False
        #: The leader according to the cluster; tried first until it is unreachable.
        self._leader: Address | None = None
        self.credentials: Credentials | None = options.credentials
        #: The groups to join again on a new connection.
        self.joined: set[JoinConsumerGroup] = set()
        #: Counts connections; a change means that the server sees a new session.
        self.generation = 0

    @property
    def is_connected(self) -> bool:
        return self._transport is not None and self._transport.is_open

    def connect(self, timeout: float) -> None:
        """Connect unless already connected."""
        self._connected(time.monotonic() + timeout)

    def close(self) -> None:
        """Close the connection for good."""
        self._is_closed = True
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.stop()
        self._connecting.stop()
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def exchange(
        self,
        parts: Sequence[Buffer],
        timeout: float,
        *,
        request: str,
        repeatable: bool,
        generation: int | None = None,
    ) -> bytes | memoryview:
        """Send a request and return the payload of its answer; an error status raises.

        Reconnects first if the connection is known to be lost. If it ends while the answer is
        pending, reconnects and repeats the request, provided that it is `repeatable` or that the
        server says it did not execute it. With `generation` the request is sent on that
        connection or not at all.
        """
        until = time.monotonic() + timeout
        fault: BorzoiError | None = None
        for _ in range(REPEATS_MAX):
            transport = self._connected(until)
            if generation is not None and generation != self.generation:
                raise Disconnected(f"the connection of {request} has ended, and there is another")
            try:
                answer = transport.exchange(parts, _left(until))
            except RequestTimeout:
                raise
            except ConnectionLost as lost:
                if not repeatable or not self._options.reconnection.enabled:
                    raise
                fault = lost
                continue
            if not answer.status:
                return answer.payload
            fault = error_answered(answer.status, request, answer.payload)
            if not self._is_over(answer.status):
                break
            self._drop(transport)
            if answer.status == GOODBYE and not repeatable:
                break
        assert fault is not None
        raise fault

    def _is_over(self, status: int) -> bool:
        if not self._options.reconnection.enabled:
            return False
        if status == UNAUTHENTICATED:
            return self.credentials is not None
        return status in (GOODBYE, STALE)

    def _drop(self, transport: Transport) -> None:
        if self._transport is transport:
            self._transport = None
        transport.close()

    def _connected(self, until: float) -> Transport:
        """Return the connection, after connecting if there is none."""
        transport = self._transport
        if transport is not None and transport.is_open:
            return transport
        try:
            return self._connecting.call(lambda: self._reconnected(until), _left(until))
        except TimeoutError:
            raise CannotConnect("no connection could be made in time") from None

    def _reconnected(self, until: float) -> Transport:
        if self._is_closed:
            raise ClientClosed("the client is closed; create a new one")
        transport = self._transport
        if transport is not None and transport.is_open:
            return transport
        return self._connect_again(until)

    def _connect_again(self, until: float) -> Transport:
        # The first connection is tried once at each address: a wrong address should be reported
        # at once. Retries are for servers that were reachable before.
        waits = pauses(self._options.reconnection) if self._was_connected else iter(())
        while True:
            try:
                return self._connect_once(until)
            except CannotConnect:
                pause = next(waits, None)
                if pause is None or time.monotonic() + pause >= until:
                    raise
                sleep(pause)

    def _connect_once(self, until: float) -> Transport:
        """Try each address once."""
        addresses = list(self._options.addresses)
        if self._leader is not None:
            addresses = [self._leader, *(each for each in addresses if each != self._leader)]
        fault: BorzoiError | None = None
        for address in addresses:
            try:
                return self._connect_to(address)
            except ConnectionLost as lost:
                self._leader = None
                if fault is None:
                    fault = lost
                if time.monotonic() >= until:
                    break
        assert fault is not None
        others = f" (and {len(addresses) - 1} more addresses)" if len(addresses) > 1 else ""
        raise CannotConnect(f"{fault}{others}") from fault

    def _connect_to(self, address: Address) -> Transport:
        """Return a logged-in connection, to this node or to the leader."""
        for _ in range(1 + REDIRECTS_MAX):
            transport = dial(address, self._options)
            try:
                self._introduce(transport)
                leader = self._leader_behind(transport, address)
            except BaseException:
                transport.close()
                raise
            if leader is None:
                break
            transport.close()
            address = self._leader = leader
        self._transport = transport
        self._was_connected = True
        self.generation += 1
        if self._heartbeat is None and self._options.heartbeat_interval > 0:
            self._heartbeat = Repeater(
                self._options.heartbeat_interval, self._beat, "borzoi heartbeat"
            )
        return transport

    def _introduce(self, transport: Transport) -> None:
        """Log in and rejoin the groups."""
        credentials = self.credentials
        if credentials is None:
            return
        if isinstance(credentials, Password):
            login: Request = LoginUser(
                credentials.username, credentials.password, __version__, CLIENT_CONTEXT
            )
        else:
            login = LoginWithPersonalAccessToken(credentials.token)
        self._say(transport, login)
        for group in self.joined:
            try:
                self._say(transport, group)
            except NotFound:
                # Deleted in the meantime: its consumers get an error when they poll.
                continue

    def _leader_behind(self, transport: Transport, address: Address) -> Address | None:
        if self.credentials is None:
            return None
        try:
            payload = self._say(transport, GetClusterMetadata())
            metadata = ClusterMetadata.decode(Reader(payload))
        except ConnectionLost:
            raise
        except BorzoiError:
            # A server without this command is treated as the leader.
            return None
        return redirected(metadata, address, self._options.transport)

    def _say(self, transport: Transport, request: Request) -> bytes | memoryview:
        frame = encode_request(request)
        answer = transport.exchange([frame], self._options.connect_timeout)
        if answer.status:
            raise error_answered(answer.status, type(request).__name__, answer.payload)
        return answer.payload

    def _beat(self) -> None:
        transport = self._transport
        if transport is None or not transport.is_open:
            return
        try:
            self._say(transport, Ping())
        except BorzoiError:
            # An unanswered ping has closed the connection; the next call reconnects.
            return


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)
