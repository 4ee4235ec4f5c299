"""Every transport of each colour keeps to the interface."""

import inspect

import pytest

from borzoi.client.transports.interface import AsyncTransport, Transport
from borzoi.client.transports.tcp import AsyncTcpTransport, TcpTransport


@pytest.mark.parametrize(
    ("interface", "transport"), [(AsyncTransport, AsyncTcpTransport), (Transport, TcpTransport)]
)
def test_a_transport_has_what_the_interface_says(interface: type, transport: type) -> None:
    promised = {name for name in vars(interface) if not name.startswith("_")}
    assert promised == {"is_open", "exchange", "reuse", "close"}
    for name in promised - {"is_open"}:
        ours, theirs = getattr(transport, name), getattr(interface, name)
        assert (
            inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()
        )
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)
