"""A client's options in one line of text.

::

    scheme://[credentials@]address[,address...][?option=value[&option=value...]]

    scheme         iggy, iggy+tcp (TCP), iggy+ws, iggy+http, iggy+quic; the same with borzoi;
                   iggy+wss and iggy+https stand for tls=true
    credentials    user:password, or a personal access token alone
    address        host, host:port, [IPv6 address]:port; the port is that of the transport unless
                   it is given

Special characters (``@ : ? %`` in credentials, ``& %`` in values) are
percent-encoded, as in ``%40``; a token needs no encoding. All options of the published clients are
accepted, and two of our own:

=================================  ================  ==============================================
option                             unless given      meaning
=================================  ================  ==============================================
tls                                false             true: the connection is encrypted; QUIC is
                                                     always, and true verifies its certificate
tls_domain                         the host          the name that the certificate must have
tls_ca_file                        the system's      certificates to trust, a PEM file
tls_validate_certificate           true              false: accept any certificate
reconnection_retries               unlimited         attempts after the first one
reconnection_interval              1s                the longest pause between two attempts
heartbeat_interval                 5s                how often an idle connection is pinged
timeout                            30s               the longest a call takes (ours)
connect_timeout                    5s                the longest an attempt to connect takes (ours)
=================================  ================  ==============================================

``reconnection_max_retries`` and ``validate_certificate`` are other names for two of them. The
options of the published clients for buffers and windows (`TUNING`) are checked and ignored, because
a string that works there has to work here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote

from borzoi.client.options import (
    DEFAULT_PORTS,
    Address,
    Credentials,
    Options,
    Password,
    Reconnection,
    Tls,
    Token,
)
from borzoi.model.errors import InvalidConnectionString, InvalidFormat
from borzoi.model.limits import U16_MAX, U32_MAX, U64_MAX
from borzoi.model.system import TransportKind
from borzoi.model.units import SECOND, parse_duration

SCHEMES: Final[Mapping[str, TransportKind]] = {
    name + suffix: transport
    for name in ("borzoi", "iggy")
    for suffix, transport in {
        "": TransportKind.TCP,
        "+tcp": TransportKind.TCP,
        "+ws": TransportKind.WEBSOCKET,
        "+wss": TransportKind.WEBSOCKET,
        "+http": TransportKind.HTTP,
        "+https": TransportKind.HTTP,
        "+quic": TransportKind.QUIC,
    }.items()
}

#: How schemes end that mean TLS.
SECURE: Final = ("+wss", "+https")

_SHAPE: Final = "borzoi://user:password@host:port?option=value"


@dataclass(slots=True)
class _Said:
    """The values of the options; None for those not given."""

    tls: bool | None = None
    tls_domain: str | None = None
    tls_ca_file: str | None = None
    tls_validate_certificate: bool | None = None
    reconnection_retries: int | None = None
    reconnection_interval: float | None = None
    heartbeat_interval: float | None = None
    timeout: float | None = None
    connect_timeout: float | None = None


def parse(text: str) -> Options:
    """Parse a connection string; `InvalidConnectionString` says what is wrong with it."""
    scheme, separator, rest = text.partition("://")
    transport = SCHEMES.get(scheme)
    if not separator or transport is None:
        # Do not show the string: it may contain a password.
        raise InvalidConnectionString(
            f"a connection string begins with one of {', '.join(f'{s}://' for s in SCHEMES)}"
            f" and looks like {_SHAPE}"
        )
    rest, _, query = rest.partition("?")
    # A token is Base64 and may contain slashes: skip what precedes the last @.
    credentials, _, location = rest.rpartition("@")
    addresses, _, path = location.partition("/")
    if path:
        raise InvalidConnectionString(
            f"a connection string has no path, but this one has {path!r}; topics are named in calls"
        )
    options = Options(
        addresses=tuple(_address(each, transport) for each in addresses.split(",")),
        transport=transport,
        credentials=_credentials(credentials),
    )
    said = _said(query)
    if scheme.endswith(SECURE):
        if said.tls is False:
            raise InvalidConnectionString(f"{scheme}:// means TLS, but tls is 'false'")
        said.tls = True
    elif transport is TransportKind.QUIC and said.tls is None:
        # Published clients verify the certificate of QUIC only on request.
        said.tls = bool(said.tls_validate_certificate or said.tls_ca_file)
    return _with_said(options, said)


def _credentials(text: str) -> Credentials | None:
    if not text:
        return None
    username, colon, password = text.partition(":")
    if not colon:
        return Token(unquote(username))
    if not username or not password:
        raise InvalidConnectionString(
            "a connection string names a user and a password, or a token alone, in front of the @"
        )
    return Password(unquote(username), unquote(password))


def _address(text: str, transport: TransportKind) -> Address:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.partition(":")
    if not host or (colon and colon != ":"):
        raise InvalidConnectionString(
            f"{text!r} is not an address: host, host:port or [IPv6 address]:port"
        )
    if not colon:
        return Address(host, DEFAULT_PORTS[transport])
    number = _digits(port)
    if number is None or not 0 < number <= U16_MAX:
        raise InvalidConnectionString(f"{port!r} is not a port: a number from 1 to {U16_MAX}")
    return Address(host, number)


def _said(query: str) -> _Said:
    said = _Said()
    for pair in query.split("&") if query else []:
        name, equals, value = pair.partition("=")
        reading = _OPTIONS.get(name)
        if not equals or reading is None:
            raise InvalidConnectionString(
                f"there is no option {name!r}; there are {', '.join(sorted(_OPTIONS))}"
            )
        attribute, read = reading
        worth = read(name, unquote(value))
        if attribute:
            setattr(said, attribute, worth)
    return said


def _with_said(options: Options, said: _Said) -> Options:
    tls = None
    if said.tls:
        tls = Tls(
            domain=said.tls_domain or "",
            ca_file=said.tls_ca_file,
            validate_certificate=said.tls_validate_certificate is not False,
        )
    reconnection = Reconnection(
        retries=said.reconnection_retries,
        interval=_given(said.reconnection_interval, options.reconnection.interval),
    )
    return replace(
        options,
        tls=tls,
        reconnection=reconnection,
        timeout=_given(said.timeout, options.timeout),
        connect_timeout=_given(said.connect_timeout, options.connect_timeout),
        heartbeat_interval=_given(said.heartbeat_interval, options.heartbeat_interval),
    )


def _given(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _refused(name: str, value: str, allowed: str) -> InvalidConnectionString:
    return InvalidConnectionString(f"{name} is {value!r}; {allowed} is allowed")


def _flag(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise _refused(name, value, "true or false")
    return value == "true"


def _text(_: str, value: str) -> str:
    return value


def _seconds(name: str, value: str) -> float:
    try:
        return parse_duration(value) / SECOND
    except InvalidFormat as fault:
        raise InvalidConnectionString(f"{name}: {fault}") from None


def _number(most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        number = _digits(value)
        if number is None or number > most:
            raise _refused(name, value, f"a number up to {most}")
        return number

    return read


def _digits(text: str) -> int | None:
    # No number of an option has more digits than the largest u64.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _retries(name: str, value: str) -> int | None:
    return None if value == "unlimited" else _number(U32_MAX)(name, value)


#: Of the published clients: checked, without effect.
TUNING: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "nodelay": _flag,
    "reestablish_after": _seconds,
    "reconnection_reestablish_after": _seconds,
    "retries": _number(U32_MAX),
    "response_buffer_size": _number(U64_MAX),
    "max_concurrent_bidi_streams": _number(U64_MAX),
    "datagram_send_buffer_size": _number(U64_MAX),
    "initial_mtu": _number(U16_MAX),
    "send_window": _number(U64_MAX),
    "receive_window": _number(U64_MAX),
    "keep_alive_interval": _number(U64_MAX),
    "max_idle_timeout": _number(U64_MAX),
    "read_buffer_size": _number(U64_MAX),
    "write_buffer_size": _number(U64_MAX),
    "max_write_buffer_size": _number(U64_MAX),
    "max_message_size": _number(U64_MAX),
    "max_frame_size": _number(U64_MAX),
    "accept_unmasked_frames": _flag,
}

#: Name of an option → the field it fills (none for `TUNING`) and how its value is read.
_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    "tls": ("tls", _flag),
    "tls_domain": ("tls_domain", _text),
    "tls_ca_file": ("tls_ca_file", _text),
    "tls_validate_certificate": ("tls_validate_certificate", _flag),
    "validate_certificate": ("tls_validate_certificate", _flag),
    "reconnection_retries": ("reconnection_retries", _retries),
    "reconnection_max_retries": ("reconnection_retries", _retries),
    "reconnection_interval": ("reconnection_interval", _seconds),
    "heartbeat_interval": ("heartbeat_interval", _seconds),
    "timeout": ("timeout", _seconds),
    "connect_timeout": ("connect_timeout", _seconds),
    **{name: ("", read) for name, read in TUNING.items()},
}
