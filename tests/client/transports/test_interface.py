"""Every transport of each colour keeps to the interface."""

import inspect

import pytest

from borzoi.client.options import Address
from borzoi.client.receiving import AnswerReceiver
from borzoi.client.transports.blocking_tcp import TcpTransport
from borzoi.client.transports.http import HttpWire
from borzoi.client.transports.interface import AsyncTransport, Transport, Wire
from borzoi.client.transports.quic import AsyncQuicTransport, QuicTransport
from borzoi.client.transports.tcp import AsyncTcpTransport
from borzoi.client.transports.websocket import WebSocketWire


@pytest.mark.parametrize(
    ("interface", "transport"),
    [
        (AsyncTransport, AsyncTcpTransport),
        (Transport, TcpTransport),
        (AsyncTransport, AsyncQuicTransport),
        (Transport, QuicTransport),
    ],
)
def test_a_transport_has_what_the_interface_says(interface: type, transport: type) -> None:
    promised = {name for name in vars(interface) if not name.startswith("_")}
    assert promised == {"is_open", "exchange", "close"}
    for name in promised - {"is_open"}:
        ours, theirs = getattr(transport, name), getattr(interface, name)
        assert (
            inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()
        )
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)


@pytest.mark.parametrize("wire", [AnswerReceiver, WebSocketWire, HttpWire])
def test_a_wire_has_what_the_interface_says(wire: type) -> None:
    promised = {name for name in vars(Wire) if not name.startswith("_")}
    made = wire(Address("localhost", 1))
    assert all(hasattr(made, name) for name in promised)
    assert len(made.space()) > 0
    assert not made.unasked
    assert made.take_unasked() == b""
    assert made.missing == 0
