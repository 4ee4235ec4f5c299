"""From global options, context and environment to a client that is logged in.

Credentials, in this order: the login session at this server, a token, a user name with its
password, ``BORZOI_USERNAME`` and ``BORZOI_PASSWORD`` (or ``IGGY_…``). The command line takes
precedence over the context.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

import click

from borzoi.cli import home
from borzoi.cli.faults import CommandFailed, Exit, reported
from borzoi.client import Client, Options, Password, Token
from borzoi.client.connection_string import parse
from borzoi.model.errors import BorzoiError, InvalidAccessToken, ResourceNotFound, TokenExpired

#: Transport → scheme, the option that holds its address, and the default address.
TRANSPORTS: Final = {
    "tcp": ("borzoi+tcp", "tcp_server_address", "127.0.0.1:8090"),
    "quic": ("borzoi+quic", "quic_server_address", "127.0.0.1:8080"),
    "http": ("borzoi+http", "http_api_url", "http://localhost:3000"),
    "ws": ("borzoi+ws", "websocket_server_address", "127.0.0.1:8092"),
}


@dataclass(slots=True)
class Connecting:
    """The global options of one call; None where not given."""

    options: Mapping[str, Any] = field(default_factory=dict)
    quiet: bool = False

    def get(self, name: str) -> Any:
        """An option of the command line, else of the active context."""
        value = self.options.get(name)
        return value if value not in (None, False, "") else home.active_context().get(name)

    @property
    def transport(self) -> str:
        return str(self.get("transport") or "tcp")

    @property
    def address(self) -> str:
        """The address of the server; login sessions are stored under it."""
        if server := self.options.get("server"):
            return ",".join(map(str, parse(server).addresses))
        _, name, usual = TRANSPORTS[self.transport]
        return str(self.get(name) or usual).removeprefix("http://").removeprefix("https://")

    def client_options(self, *, log_in: bool = True) -> Options:
        """The connection string without credentials; `log_in` adds them."""
        if server := self.options.get("server"):
            options = parse(server)
        else:
            scheme = TRANSPORTS[self.transport][0]
            options = parse(f"{scheme}://{self.address}{self._query()}")
        if log_in and options.credentials is None:
            options = replace(options, credentials=self.credentials())
        return options if log_in else replace(options, credentials=None)

    def _query(self) -> str:
        """Options of the connection string for the given command line options."""
        said: dict[str, Any] = {
            "reconnection_retries": self.options.get("reconnection_retries"),
            "reconnection_interval": self.options.get("reconnection_interval"),
        }
        if self.transport == "quic":
            said["tls_domain"] = self.get("quic_server_name")
            said["validate_certificate"] = str(bool(self.get("quic_validate_certificate"))).lower()
        elif self.get("tcp_tls_enabled") or self.address_is_https:
            said |= {"tls": "true", "tls_domain": self.get("tcp_tls_domain")}
        given = (f"{name}={quote(str(value))}" for name, value in said.items() if value is not None)
        return "?" + "&".join(given)

    @property
    def address_is_https(self) -> bool:
        return self.transport == "http" and str(self.get("http_api_url") or "").startswith("https")

    def credentials(self) -> Password | Token:
        given = ("token", "token_name", "username")
        if not any(self.options.get(name) for name in given):
            session = home.session_token(self.address)
            if session is not None:
                return Token(session)
        if token := self.get("token"):
            return Token(str(token))
        if name := self.get("token_name"):
            return _stored_token(self.address, str(name))
        if username := self.get("username"):
            return Password(str(username), self._password(str(username)))
        username, password = (_environment(name) for name in ("USERNAME", "PASSWORD"))
        if username and password:
            return Password(username, password)
        raise CommandFailed(
            "no credentials were given",
            Exit.LOGIN_REFUSED,
            "give -u and -p, set BORZOI_USERNAME and BORZOI_PASSWORD, or use `borzoi login`",
        )

    def _password(self, username: str) -> str:
        password = self.get("password")
        if password is not None:
            return str(password)
        if sys.stdin.isatty():
            return str(click.prompt(f"Password of {username}", hide_input=True, err=True))
        return sys.stdin.readline().rstrip("\n")


def _environment(name: str) -> str | None:
    return os.environ.get(f"BORZOI_{name}") or os.environ.get(f"IGGY_{name}")


def _stored_token(address: str, name: str) -> Token:
    token = home.stored_token(address, name)
    if token is None:
        raise CommandFailed(
            f"no token {name!r} is stored for {address}",
            Exit.LOGIN_REFUSED,
            "`borzoi pat create NAME --store-token` stores one",
        )
    return Token(token)


@contextmanager
def connected(*, log_in: bool = True) -> Iterator[Client]:
    """Return a client for the running command; errors become failures of the command."""
    connecting = click.get_current_context().find_object(Connecting)
    assert connecting is not None
    with reported():
        options = connecting.client_options(log_in=log_in)
        try:
            with Client(options) as client:
                yield client
        except (TokenExpired, InvalidAccessToken, ResourceNotFound) as fault:
            _explain_session(connecting, options, fault)
            raise


def _explain_session(connecting: Connecting, options: Options, fault: BorzoiError) -> None:
    """Delete an expired session, so that the next call does not try it again."""
    session = home.session_token(connecting.address)
    if isinstance(options.credentials, Token) and options.credentials.token == session:
        if isinstance(fault, ResourceNotFound) and "Login" not in str(fault):
            return
        home.forget_token(connecting.address, home.SESSION)
        raise CommandFailed(
            f"the login session at {connecting.address} has expired",
            Exit.LOGIN_REFUSED,
            "log in again with `borzoi login`",
        ) from fault
