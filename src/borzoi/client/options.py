"""The options of a client: where to connect, as which user, timeouts and retries.

All times are seconds. A connection string (`connection_string.py`) says the same in one line of
text.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.model.errors import InvalidConnectionString
from borzoi.model.system import TransportKind

#: The default port of each transport.
DEFAULT_PORTS: Final = {
    TransportKind.TCP: 8090,
    TransportKind.QUIC: 8080,
    TransportKind.HTTP: 3000,
    TransportKind.WEBSOCKET: 8092,
}

#: A server on this machine with the default credentials for development.
DEFAULT_SERVER: Final = "borzoi://iggy:iggy@127.0.0.1:8090"


@dataclass(frozen=True, slots=True)
class Password:
    """A user's name and password."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    """A personal access token."""

    token: str = field(repr=False)


Credentials = Password | Token


@dataclass(frozen=True, slots=True)
class Address:
    """One server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Tls:
    """How to verify the server; `domain` is the name its certificate must have, by default the
    host of the address."""

    domain: str = ""
    ca_file: str | None = None
    validate_certificate: bool = True


@dataclass(frozen=True, slots=True)
class Reconnection:
    """When to retry after a connection was lost or could not be opened.

    The first attempt follows at once; the pauses between further attempts begin at `interval`
    divided by 16 and double until they are `interval`. `retries` bounds the attempts after the
    first one, None means no bound but the timeout of each call.
    """

    enabled: bool = True
    retries: int | None = None
    interval: float = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """All of it."""

    addresses: tuple[Address, ...] = (Address("127.0.0.1", DEFAULT_PORTS[TransportKind.TCP]),)
    transport: TransportKind = TransportKind.TCP
    credentials: Credentials | None = None
    tls: Tls | None = None
    reconnection: Reconnection = Reconnection()
    #: The default timeout of a call, reconnecting included.
    timeout: float = 30.0
    #: The timeout of one attempt to connect and log in.
    connect_timeout: float = 5.0
    #: How often an idle connection is pinged; 0 for never.
    heartbeat_interval: float = 5.0

    def __post_init__(self) -> None:
        if not self.addresses:
            raise InvalidConnectionString("a client needs at least one address")
        for name in ("timeout", "connect_timeout"):
            seconds = getattr(self, name)
            if not 0 < seconds <= SECONDS_MAX:
                raise InvalidConnectionString(
                    f"{name} is {seconds} seconds; above 0 and up to {SECONDS_MAX} are allowed"
                )


#: A year, in seconds: longer timeouts are mistakes, and some timers would overflow.
SECONDS_MAX: Final = 366 * 24 * 60 * 60
