"""The transports of a server, and marks for tests that run over several of them."""

import pytest

#: Transport, as connection strings name it → the section of the server's settings.
SECTIONS = {"tcp": "tcp", "ws": "websocket", "quic": "quic", "http": "http"}

every_transport = pytest.mark.parametrize("transport", list(SECTIONS))

#: HTTP has none, and so neither members of groups nor a connection to ask about.
with_sessions = pytest.mark.parametrize("transport", ["tcp", "ws", "quic"])

#: Settings of a server that has them all.
EVERY_TRANSPORT = {
    f"{section.upper()}_{name}": value
    for section in SECTIONS.values()
    for name, value in (("ENABLED", "true"), ("ADDRESS", "127.0.0.1:0"))
}
