"""TCP, plain and inside TLS, on an event loop; `blocking_tcp.py` has the blocking transport.

The parts of a frame are written with one system call if the kernel accepts them, and received into
the memory that the wire provides. Only the wire knows how frames are wrapped (not at all, in
WebSocket messages, as HTTP calls).
"""

import asyncio
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Final, cast

from borzoi.client.options import Address, Options
from borzoi.client.receiving import AnswerReceiver
from borzoi.client.transports.faults import anew, cannot_connect, late, lost, server_hostname
from borzoi.client.transports.interface import Wire
from borzoi.client.transports.tls import context_of
from borzoi.model.errors import BorzoiError, ClientClosed, InvalidVersion
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame

#: How many bytes an event loop's transport may buffer before senders have to wait.
WRITE_BUFFER_BYTES: Final = 1024 * 1024


def unsent(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """Return the parts without their first `sent` bytes."""
    rest: list[Buffer] = []
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
        else:
            rest.append(memoryview(part)[sent:] if sent else part)
            sent = 0
    return rest


def readable(descriptor: int) -> "select.poll":
    """Poll whether there is something to read, or the connection has ended."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return poller


class AsyncTcpTransport(asyncio.BufferedProtocol):
    """A connection on an event loop."""

    def __init__(self, address: Address, wire: Wire) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._wire = wire
        self._waiting: deque[asyncio.Future[ResponseFrame]] = deque()
        self._transport: asyncio.Transport | None = None
        #: For writes that bypass the transport; -1 when it has to encrypt them.
        self._descriptor = -1
        self._poller: select.poll | None = None
        self._fault: BorzoiError | None = None
        self._drained: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] = self._loop.create_future()
        #: Done when the wire is open, or has failed to open.
        self._opened: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def connect(
        cls, address: Address, options: Options, wire: Wire | None = None
    ) -> "AsyncTcpTransport":
        """A connection to the address; `CannotConnect` when there is none in time."""
        loop = asyncio.get_running_loop()
        carried = AnswerReceiver(address) if wire is None else wire
        context = context_of(options.tls) if options.tls else None
        try:
            async with asyncio.timeout(options.connect_timeout):
                _, protocol = await loop.create_connection(
                    lambda: cls(address, carried),
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname=server_hostname(address, options) if context else None,
                )
                try:
                    await protocol._open()
                except BaseException:
                    await protocol.close()
                    raise
        except (OSError, ssl.SSLError) as fault:
            raise cannot_connect(address, fault) from fault
        return protocol

    async def _open(self) -> None:
        if self._wire.opening:
            self._write([self._wire.opening])
            await asyncio.shield(self._opened)
            if self._fault is not None:
                raise anew(self._fault)

    @property
    def is_open(self) -> bool:
        # A program that blocked the loop may send before the loop has seen the end.
        poller = self._poller
        if self._fault is None and poller is not None and not self._waiting and poller.poll(0):
            self._end(lost(self._address))
        return self._fault is None

    async def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        if self._drained is not None:
            await self._until_drained(timeout)
        if self._fault is not None:
            raise anew(self._fault)
        parts = self._wire.outgoing(parts)
        waiter: asyncio.Future[ResponseFrame] = self._loop.create_future()
        self._waiting.append(waiter)
        self._write(parts)
        timer = self._loop.call_later(timeout, self._expire, waiter, timeout)
        try:
            return await waiter
        finally:
            timer.cancel()

    async def close(self) -> None:
        self._end(ClientClosed("the client was closed"))
        await asyncio.shield(self._ended)

    def _write(self, parts: Sequence[Buffer]) -> None:
        transport = self._transport
        assert transport is not None
        rest = parts
        if (
            self._descriptor >= 0
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
        ):
            # An event loop would join the parts, or delay them until the end of its turn.
            try:
                rest = unsent(parts, os.writev(self._descriptor, parts))
            except OSError:
                pass  # the transport finds the same, and reports it
        if rest:
            transport.writelines(rest)
            # CPython 3.12 and 3.13 do not look at the size of the buffer after `writelines`.
            transport.set_write_buffer_limits()

    async def _until_drained(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                while self._drained is not None:
                    await asyncio.shield(self._drained)
        except TimeoutError:
            raise late(self._address, timeout) from None

    def _expire(self, waiter: "asyncio.Future[ResponseFrame]", timeout: float) -> None:
        if not waiter.done():
            waiter.set_exception(late(self._address, timeout))
            self._end(lost(self._address, late(self._address, timeout)))

    def _end(self, fault: BorzoiError) -> None:
        """Close the connection once; every pending call raises the first reason."""
        if self._fault is None:
            self._fault = fault
        if self._transport is not None:
            self._transport.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._wire.opening:
            self._opened.set_result(None)
        if transport.get_extra_info("ssl_object") is None:
            self._descriptor = sock.fileno()
            self._poller = readable(self._descriptor)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._wire.space()

    def buffer_updated(self, nbytes: int) -> None:
        wire = self._wire
        try:
            answers = wire.received(nbytes)
            # Drain the socket now; one receive per turn of the loop would be slower.
            while wire.missing and self._descriptor >= 0:
                nbytes = os.readv(self._descriptor, [wire.space()])
                if not nbytes:
                    break  # the loop reports EOF as well
                answers += wire.received(nbytes)
        except OSError:
            pass  # nothing more now; the loop reports errors as well
        except InvalidVersion as fault:
            self._end(fault)
            return
        if wire.unasked:
            self._write([wire.take_unasked()])
        if wire.is_open and not self._opened.done():
            self._opened.set_result(None)
        self._hand_out(answers)
        if self._opened.done() and not wire.is_open:
            self._end(lost(self._address))

    def _hand_out(self, answers: list[ResponseFrame]) -> None:
        for answer in answers:
            if not self._waiting:
                # Servers send this unasked before they close.
                self._end(lost(self._address))
                return
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(answer)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def connection_lost(self, fault: Exception | None) -> None:
        if self._fault is None:
            self._fault = lost(self._address, fault)
        self._descriptor, self._poller = -1, None
        self.resume_writing()
        if not self._opened.done():
            self._opened.set_result(None)
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(anew(self._fault))
        self._ended.set_result(None)
