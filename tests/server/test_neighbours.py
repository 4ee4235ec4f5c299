import socket
import threading

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server import neighbours
from borzoi.server.neighbours import answers_a_ping, refuse_to_share


def listening() -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


def test_a_server_that_answers_is_not_shared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    # It answers when its thread has a turn, which a busy machine gives it late.
    monkeypatch.setattr(neighbours, "PATIENCE_SECONDS", 60.0)
    with listening() as sock:
        sock.listen()

        def answer() -> None:
            connection, _ = sock.accept()
            with connection:
                assert connection.recv(8) == bytes.fromhex("0400000001000000")
                connection.sendall(bytes(8))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(InvalidConfiguration, match=r"tcp\.address"):
            refuse_to_share("tcp.address", sock.getsockname())
        thread.join()


def test_a_port_that_is_merely_reserved_is_no_obstacle() -> None:
    with listening() as sock:
        assert not answers_a_ping(sock.getsockname())
        sock.listen()
        refuse_to_share("tcp.address", sock.getsockname())
    refuse_to_share("tcp.address", ("0.0.0.0", 0))
