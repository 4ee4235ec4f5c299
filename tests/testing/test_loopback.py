import socket
import threading

import pytest

from borzoi.testing.loopback import LoopbackServer


class Echo(LoopbackServer):
    def _accepted(self, connection: socket.socket) -> None:
        self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)


def answer(sock: socket.socket, data: bytes) -> bytes:
    sock.sendall(data)
    return sock.recv(100)


def test_each_connection_is_served_until_it_is_dropped() -> None:
    with Echo() as server:
        with socket.create_connection(server.address) as one:
            assert answer(one, b"one") == b"one"
            with socket.create_connection(server.address) as other:
                assert answer(other, b"other") == b"other"
                assert answer(one, b"again") == b"again"
            server.drop()
            assert one.recv(1) == b""
        with socket.create_connection(server.address) as later:
            assert answer(later, b"later") == b"later"


def test_a_closed_server_has_no_connection_and_no_thread() -> None:
    before = threading.active_count()
    with Echo() as server, socket.create_connection(server.address) as client:
        address = server.address
        assert answer(client, b"hello") == b"hello"
        server.close()
        assert client.recv(1) == b""
        assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_its_url_has_the_credentials() -> None:
    with Echo("me:secret") as server:
        assert server.url == "borzoi://me:secret@{}:{}".format(*server.address)
