"""Which transport a connection string means, and a connection by it."""

from borzoi.client.options import Address, Options
from borzoi.client.transports.interface import AsyncTransport, Transport
from borzoi.client.transports.tcp import AsyncTcpTransport, TcpTransport
from borzoi.model.errors import FeatureUnavailable
from borzoi.model.system import TransportKind as Kind


async def async_dial(address: Address, options: Options) -> AsyncTransport:
    """A connection on the running event loop."""
    _check(options.transport)
    return await AsyncTcpTransport.connect(address, options)


def dial(address: Address, options: Options) -> Transport:
    """A connection with blocking calls."""
    _check(options.transport)
    return TcpTransport.connect(address, options)


def _check(kind: Kind) -> None:
    if kind is not Kind.TCP:
        raise FeatureUnavailable(
            f"this client does not speak {kind.name} yet; borzoi:// connects by TCP"
        )
