"""Connections without a login keep their places for a while, and not for ever."""

import time

import pytest

from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.users import LogoutUser
from borzoi.testing.server import running_server
from borzoi.testing.wire_client import PATIENCE_SECONDS, WireClient

pytestmark = pytest.mark.system

TIMEOUT_SECONDS = 1.0
SETTINGS = {"TCP_LOGIN_TIMEOUT": "1 s", "TCP_MAX_CONNECTIONS_PER_ADDRESS": "3"}


def test_who_does_not_log_in_makes_room_and_who_did_stays() -> None:
    with running_server(SETTINGS) as server:
        with (
            WireClient(server.tcp_address) as guest,
            WireClient(server.tcp_address) as silent,
            WireClient(server.tcp_address) as pinging,
        ):
            began = time.monotonic()
            guest.call(Ping())
            guest.login()
            pinging.call(Ping())
            with WireClient(server.tcp_address) as refused:
                assert refused.leftovers(PATIENCE_SECONDS) == (b"", True)
            for stranger in (silent, pinging):
                assert stranger.leftovers(PATIENCE_SECONDS) == (b"", True)
            assert time.monotonic() - began >= TIMEOUT_SECONDS * 0.9
            silent.close()
            pinging.close()
            while True:
                # Their places are free when the server has seen them go.
                with WireClient(server.tcp_address) as late:
                    try:
                        late.call(Ping())
                        late.login()
                        break
                    except ConnectionError:
                        continue
            guest.call(GetMe())
            guest.call(LogoutUser())
            guest.call(Ping())
            assert guest.leftovers(PATIENCE_SECONDS) == (b"", True)
        assert server.stop() == 0
