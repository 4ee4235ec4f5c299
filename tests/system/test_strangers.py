"""Connections without a login keep their places for a while, and not for ever.

A busy machine may let that while pass before a client has asked for anything, so nobody here
depends on being in time but the guest, who comes again until it is.
"""

import socket
import struct
import time
from contextlib import suppress
from typing import cast

import pytest
from tests.support.server import running_server
from tests.support.wire_client import PATIENCE_SECONDS, WireClient

from borzoi.protocol.commands.system import Clients, GetClients, GetMe, Ping
from borzoi.protocol.commands.users import LogoutUser

pytestmark = pytest.mark.system

TIMEOUT_SECONDS = 1.0
SETTINGS = {"TCP_LOGIN_TIMEOUT": "1 s", "TCP_MAX_CONNECTIONS_PER_ADDRESS": "3"}


def logged_in(address: tuple[str, int]) -> WireClient:
    """A guest; comes again when there was no place for it, or when it was too slow."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        client = WireClient(address)
        try:
            client.call(Ping())
            client.login()
        except ConnectionError:
            client.close()
            assert time.monotonic() < until, "there was never a place for a guest"
        else:
            return client


def test_who_does_not_log_in_makes_room_and_who_did_stays() -> None:
    with running_server(SETTINGS) as server:
        with logged_in(server.tcp_address) as guest:
            began = time.monotonic()
            with (
                WireClient(server.tcp_address) as silent,
                WireClient(server.tcp_address) as pinging,
            ):
                with suppress(ConnectionError):
                    pinging.call(Ping())
                with WireClient(server.tcp_address) as refused:
                    assert refused.leftovers(PATIENCE_SECONDS) == (b"", True)
                for stranger in (silent, pinging):
                    assert stranger.leftovers(PATIENCE_SECONDS) == (b"", True)
                assert time.monotonic() - began >= TIMEOUT_SECONDS
            # Their places are free when the server has seen them go.
            logged_in(server.tcp_address).close()
            guest.call(GetMe())
            guest.call(LogoutUser())
            with suppress(ConnectionError):
                guest.call(Ping())
            assert guest.leftovers(PATIENCE_SECONDS) == (b"", True)
        assert server.stop() == 0


def test_who_resets_its_connection_in_the_middle_of_a_frame_is_gone_soon() -> None:
    with running_server() as server, logged_in(server.tcp_address) as guest:
        for _ in range(5):
            gone = logged_in(server.tcp_address)
            gone._sock.sendall(b"\x04")
            gone._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
        began = time.monotonic()
        while len(cast("Clients", guest.call(GetClients())).clients) > 1:
            assert time.monotonic() - began < PATIENCE_SECONDS, "they are still there"
            time.sleep(0.05)
        # Not because they stood still for too long: that takes longer, and says something else.
        assert "in the middle of a frame" not in server.output
