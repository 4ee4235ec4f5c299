"""QUIC: one connection is one session, and each request has its own stream.

The library (qh3) owns packets, loss and encryption. It needs an event loop; the blocking
colour runs one in a thread, because a connection needs attention between calls as well.
"""

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection, QuicConnectionError
from qh3.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived, StreamReset

from borzoi.client.options import Address, Options
from borzoi.client.transports.faults import anew, cannot_connect, late, lost
from borzoi.model.errors import BorzoiError, ClientClosed, InvalidVersion
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import PREFIX_BYTES, RESPONSE_PREFIX, ResponseFrame

T = TypeVar("T")

#: The name in the self-signed certificate of servers.
OWN_NAME: Final = "localhost"
#: The flow-control window for received data.
WINDOW_BYTES: Final = 16 << 20
IDLE_SECONDS: Final = 10.0
#: Error codes of connections whose TLS failed (RFC 9001, section 4.8).
TLS_ALERTS: Final = range(0x100, 0x200)
#: Streams that clients open for both directions have every fourth number.
STREAM_STEP: Final = 4


def configuration_of(address: Address, options: Options) -> QuicConfiguration:
    """Verify certificates only if the options mention TLS, as the published clients do.

    The library trusts authorities, not single certificates, so `ca_file` must be that of one.
    """
    tls = options.tls
    configuration = QuicConfiguration(
        is_client=True,
        # Offer none: servers of this protocol reject clients that offer one.
        alpn_protocols=None,
        server_name=(tls.domain if tls else "") or _name_of(address),
        verify_mode=ssl.CERT_REQUIRED if tls and tls.validate_certificate else ssl.CERT_NONE,
        max_data=WINDOW_BYTES,
        max_stream_data=WINDOW_BYTES,
        idle_timeout=IDLE_SECONDS,
    )
    if tls and tls.ca_file:
        configuration.load_verify_locations(tls.ca_file)
    return configuration


def _name_of(address: Address) -> str:
    return OWN_NAME if _is_number(address.host) else address.host


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Datagrams(QuicConnectionProtocol):
    """The callbacks of the library."""

    def __init__(self, quic: QuicConnection) -> None:
        super().__init__(quic)
        self.transport: AsyncQuicTransport | None = None
        #: Why the connection ended.
        self.fault: OSError = ConnectionError("the handshake failed")
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated):
            kind = ssl.SSLError if event.error_code in TLS_ALERTS else ConnectionError
            self.fault = kind(event.reason_phrase or f"error {event.error_code}")
        if self.transport is not None:
            self.transport.happened(event)

    def connection_lost(self, fault: Exception | None) -> None:
        self.ended.set_result(None)

    def transmit(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            super().transmit()

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        super().datagram_received(data, addr)
        if self.transport is not None and self.may_request:
            self.transport.got_room()

    @property
    def may_request(self) -> bool:
        """Whether the server allows another stream."""
        opened = self._quic.get_next_available_stream_id() // STREAM_STEP
        return opened < self._quic.max_concurrent_bidi_streams

    def request(self, frame: bytes) -> int:
        """Send a request and return the stream on which its answer arrives."""
        stream = self._quic.get_next_available_stream_id()
        self._quic.send_stream_data(stream, frame, end_stream=True)
        self._transmit_soon()
        return stream

    def close(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        super().close()
        if self._timer is not None:
            # The library would wait until the close has arrived; no caller needs that.
            self._timer.cancel()
        self._transport.close()


class AsyncQuicTransport:
    """A connection on an event loop."""

    def __init__(self, datagrams: _Datagrams, address: Address) -> None:
        self._datagrams = datagrams
        datagrams.transport = self
        self._address = address
        self._fault: BorzoiError | None = None
        #: Callers waiting until the server allows more streams.
        self._queue: list[asyncio.Future[None]] = []
        #: Stream → the bytes received on it, and the future of its answer.
        self._asked: dict[int, tuple[bytearray, asyncio.Future[ResponseFrame]]] = {}

    @classmethod
    async def connect(cls, address: Address, options: Options) -> "AsyncQuicTransport":
        """Connect to the address; `CannotConnect` if that fails or takes too long."""
        try:
            async with asyncio.timeout(options.connect_timeout):
                return cls(await _connected(address, options), address)
        except OSError as fault:
            raise cannot_connect(address, fault) from fault

    @property
    def is_open(self) -> bool:
        return self._fault is None

    async def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        try:
            async with asyncio.timeout(timeout):
                return await self._answer(b"".join(parts))
        except TimeoutError:
            self._end(lost(self._address, late(self._address, timeout)))
            raise late(self._address, timeout) from None

    async def _answer(self, frame: bytes) -> ResponseFrame:
        loop = asyncio.get_running_loop()
        while self._fault is None and not self._datagrams.may_request:
            turn = loop.create_future()
            self._queue.append(turn)
            await turn
        if self._fault is not None:
            raise anew(self._fault)
        waiter: asyncio.Future[ResponseFrame] = loop.create_future()
        try:
            stream = self._datagrams.request(frame)
        except QuicConnectionError as fault:
            self._end(lost(self._address, fault))
            raise lost(self._address, fault) from fault
        self._asked[stream] = (bytearray(), waiter)
        return await waiter

    def got_room(self) -> None:
        """Wake the callers that wait for a stream."""
        queue, self._queue = self._queue, []
        for turn in queue:
            if not turn.done():
                turn.set_result(None)

    async def close(self) -> None:
        self._end(ClientClosed("the client was closed"))
        await asyncio.shield(self._datagrams.ended)

    def happened(self, event: QuicEvent) -> None:
        """Handle the events that the library found in the datagrams."""
        match event:
            case StreamDataReceived():
                self._received(event.stream_id, event.data, event.end_stream)
            case StreamReset():
                _, waiter = self._asked.pop(event.stream_id, (None, None))
                if waiter is not None and not waiter.done():
                    waiter.set_exception(lost(self._address))
            case ConnectionTerminated():
                reason = ConnectionError(event.reason_phrase) if event.reason_phrase else None
                self._end(lost(self._address, reason))

    def _received(self, stream: int, data: bytes, is_over: bool) -> None:
        asked = self._asked.get(stream)
        if asked is None:
            return
        answer, waiter = asked
        answer += data
        if not is_over:
            return
        del self._asked[stream]
        if waiter.done():
            return
        length = status = -1
        if len(answer) >= PREFIX_BYTES:
            status, length = RESPONSE_PREFIX.unpack_from(answer)
        if length == len(answer) - PREFIX_BYTES:
            waiter.set_result(ResponseFrame(status, memoryview(answer)[PREFIX_BYTES:]))
        else:
            sentence = f"the peer at {self._address} does not speak the Iggy 0.8 protocol"
            waiter.set_exception(InvalidVersion(sentence))

    def _end(self, fault: BorzoiError) -> None:
        """Close the connection once; every pending call raises the first reason."""
        if self._fault is None:
            self._fault = fault
        for _, waiter in self._asked.values():
            if not waiter.done():
                waiter.set_exception(anew(self._fault))
        self._asked.clear()
        self._datagrams.close()
        self.got_room()


async def _peer(address: Address) -> tuple[int, Any]:
    """Resolve the address; only a host name needs a lookup, which takes a thread."""
    if _is_number(address.host):
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return family, (address.host, address.port)
    infos = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_DGRAM
    )
    return infos[0][0], infos[0][4]


async def _connected(address: Address, options: Options) -> _Datagrams:
    """Return a connection after its handshake; `OSError` says why it failed."""
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=configuration_of(address, options))
    family, peer = await _peer(address)
    local = ("::", 0) if family == socket.AF_INET6 else ("0.0.0.0", 0)  # noqa: S104
    _, datagrams = await loop.create_datagram_endpoint(
        lambda: _Datagrams(quic), local_addr=local, family=family
    )
    try:
        datagrams.connect(peer)
        await datagrams.wait_connected()
    except BaseException as fault:
        datagrams.close()
        await asyncio.shield(datagrams.ended)
        if isinstance(fault, ConnectionError):
            raise datagrams.fault from fault
        raise
    return datagrams


class QuicTransport:
    """A connection with blocking calls: the asynchronous one, on a loop in a thread."""

    def __init__(self, address: Address, options: Options) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="borzoi quic", daemon=True)
        self._thread.start()
        try:
            self._inner = self._wait(AsyncQuicTransport.connect(address, options))
        except BaseException:
            self._stop()
            raise

    @classmethod
    def connect(cls, address: Address, options: Options) -> "QuicTransport":
        """Connect to the address; `CannotConnect` if that fails or takes too long."""
        return cls(address, options)

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive() and self._inner.is_open

    def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        if not self._thread.is_alive():
            raise ClientClosed("the client was closed")
        return self._wait(self._inner.exchange(parts, timeout))

    def close(self) -> None:
        if self._thread.is_alive():
            self._wait(self._inner.close())
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # Such as KeyboardInterrupt: cancel the work that nothing waits for any more.
            future.cancel()
            raise

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            # A lookup uses a thread, which would outlive this one.
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
