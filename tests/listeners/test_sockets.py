import socket

import pytest

from borzoi.listeners.sockets import SocketOptions, host_of, listening_socket, peer_text


@pytest.mark.parametrize(
    ("peer", "text"),
    [(("127.0.0.1", 8090), "127.0.0.1:8090"), (("::1", 80, 0, 0), "[::1]:80")],
)
def test_a_peer_is_written_as_clients_write_it(peer, text: str) -> None:
    assert peer_text(peer) == text
    assert host_of(text) == peer[0]


def test_options_reach_the_socket() -> None:
    with socket.socket() as sock:
        SocketOptions(keepalive=True, linger_seconds=3).apply(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[4] == 3


def test_shards_can_share_an_address() -> None:
    with listening_socket(("127.0.0.1", 0)) as first:
        with listening_socket(first.getsockname()) as second:
            assert first.getsockname() == second.getsockname()
        with pytest.raises(OSError, match="in use"):
            listening_socket(first.getsockname(), shared=False)
