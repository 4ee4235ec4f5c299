"""Checks whether another server already answers at our addresses.

Every listener shares its port between the processes of one server, so the kernel would let a
second server bind as well and give it half of the connections. So we probe the address first.
"""

import socket

from borzoi.model.errors import InvalidConfiguration

PING = bytes.fromhex("0400000001000000")
ANSWER = bytes(8)
#: A busy server answers late, and must not be missed. Only a port that accepts and stays silent
#: delays a start this long; a closed port fails at once.
PATIENCE_SECONDS = 2.0


def answers_a_ping(address: tuple[str, int]) -> bool:
    """Whether a server of our protocol answers; a reserved port does not."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0])  # noqa: S104
    try:
        with socket.create_connection((host, address[1]), PATIENCE_SECONDS) as sock:
            sock.settimeout(PATIENCE_SECONDS)
            sock.sendall(PING)
            return sock.recv(len(ANSWER)) == ANSWER
    except OSError:
        return False


def refuse_to_share(key: str, address: tuple[str, int]) -> None:
    """Raise if another server answers; port 0 is always free."""
    host, port = address
    if port and answers_a_ping(address):
        raise InvalidConfiguration(
            f"{key}: a server already answers at {host}:{port}; stop it or choose another address"
        )
