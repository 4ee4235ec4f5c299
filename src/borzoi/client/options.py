"""What a client can be told: where to connect, as whom, how long to wait, when to try again.

All times are seconds. A connection string (`connection_string.py`) says the same in one line of
text.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.model.errors import InvalidConnectionString
from borzoi.model.system import TransportKind

#: Where each transport of a server listens unless it was told otherwise.
DEFAULT_PORTS: Final = {
    TransportKind.TCP: 8090,
    TransportKind.QUIC: 8080,
    TransportKind.HTTP: 3000,
    TransportKind.WEBSOCKET: 8092,
}

#: A server on this machine with the credentials that it has for trying things out.
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
    """How the server proves who it is; `domain` is the name its certificate must have, the host
    of the address unless given."""

    domain: str = ""
    ca_file: str | None = None
    validate_certificate: bool = True


@dataclass(frozen=True, slots=True)
class Reconnection:
    """When to try again after a connection was lost or could not be made.

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
    #: The longest any call takes, connecting again included, unless the call says otherwise.
    timeout: float = 30.0
    #: The longest one attempt to connect and log in takes.
    connect_timeout: float = 5.0
    #: How often an idle connection is asked for a sign of life; 0 for never.
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


#: A year, in seconds: longer waits are mistakes, and some timers cannot count further.
SECONDS_MAX: Final = 366 * 24 * 60 * 60
