"""Exceptions for failed connections, with texts that say what to check."""

import ssl

from borzoi.client.options import Address, Options
from borzoi.model.errors import BorzoiError, CannotConnect, Disconnected, RequestTimeout


def cannot_connect(address: Address, fault: BaseException) -> CannotConnect:
    """The exception for a failed attempt, with what to check."""
    if isinstance(fault, ssl.SSLError):
        return CannotConnect(
            f"the TLS connection to {address} failed: {fault}; check tls_domain and tls_ca_file,"
            " and whether the server has TLS enabled"
        )
    if isinstance(fault, TimeoutError):
        return CannotConnect(f"no answer from {address} in time; check the address and firewalls")
    return CannotConnect(f"cannot connect to {address}: {fault}; is the server running there?")


def lost(address: Address, fault: BaseException | None = None) -> Disconnected:
    """The exception for a connection that the peer or the network ended."""
    reason = f": {fault}" if fault else ""
    return Disconnected(f"the connection to {address} ended{reason}")


def anew(fault: BorzoiError) -> BorzoiError:
    """A copy for another caller: raising one exception twice would mix up its tracebacks."""
    return type(fault)(*fault.args)


def late(address: Address, timeout: float) -> RequestTimeout:
    return RequestTimeout(
        f"no answer from {address} within {timeout:.3g} s; the server may still execute the request"
    )


def server_hostname(address: Address, options: Options) -> str:
    """The name that the certificate must have."""
    assert options.tls is not None
    return options.tls.domain or address.host
