"""Opens a connection by the transport that the connection string names.

Only TCP is imported with the client. The others are imported by the first connection that needs
them: HTTP brings a parser and the route table, which take longer to import than the client itself.
"""

from types import ModuleType

from borzoi.client.options import Address, Options
from borzoi.client.receiving import AnswerReceiver
from borzoi.client.transports.blocking_tcp import TcpTransport
from borzoi.client.transports.interface import AsyncTransport, Transport, Wire
from borzoi.client.transports.tcp import AsyncTcpTransport
from borzoi.model.errors import FeatureUnavailable
from borzoi.model.system import TransportKind as Kind


async def async_dial(address: Address, options: Options) -> AsyncTransport:
    """Connect on the running event loop."""
    if options.transport is Kind.QUIC:
        connection: AsyncTransport = await _quic().AsyncQuicTransport.connect(address, options)
        return connection
    return await AsyncTcpTransport.connect(address, options, _wire(address, options))


def dial(address: Address, options: Options) -> Transport:
    """Connect with blocking calls."""
    if options.transport is Kind.QUIC:
        connection: Transport = _quic().QuicTransport.connect(address, options)
        return connection
    return TcpTransport.connect(address, options, _wire(address, options))


def _wire(address: Address, options: Options) -> Wire:
    if options.transport is Kind.WEBSOCKET:
        from borzoi.client.transports.websocket import WebSocketWire

        return WebSocketWire(address)
    if options.transport is Kind.HTTP:
        from borzoi.client.transports.http import HttpWire

        return HttpWire(address)
    return AnswerReceiver(address)


def _quic() -> ModuleType:
    """The module of QUIC, whose library is an extra."""
    try:
        from borzoi.client.transports import quic
    except ModuleNotFoundError as fault:
        raise FeatureUnavailable(
            f"QUIC needs a library that is not installed ({fault.name}): install borzoi[quic]"
        ) from fault
    return quic
