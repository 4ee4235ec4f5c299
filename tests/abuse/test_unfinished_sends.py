"""Sends that are begun and never finished: only authorised senders get memory."""

import pytest
from tests.support.attacked import server_with_topic
from tests.support.attackers import attacking, send_of
from tests.support.good_client import measured, resident_bytes
from tests.support.wire_client import WireClient

from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.users import CreateUser

pytestmark = pytest.mark.system

MEBIBYTE = 1 << 20
CONNECTIONS = 20
SIZE = 60_000_000
UNAUTHORIZED = 41


def add_bob(address: tuple[str, int], permissions: Permissions | None) -> None:
    with WireClient(address) as client:
        client.login()
        client.call(CreateUser("bob", "secret", UserStatus.ACTIVE, permissions))


def test_who_may_not_send_holds_no_memory() -> None:
    with server_with_topic() as server:
        add_bob(server.tcp_address, None)
        alone, before = measured(server), resident_bytes(server)
        with attacking("unfinished", server.tcp_address, CONNECTIONS, SIZE):
            grown = resident_bytes(server) - before
            beside = measured(server)
        print(f"alone {alone}; beside {beside}; {grown / MEBIBYTE:.0f} MiB more")
        assert grown < 32 * MEBIBYTE


def test_a_refused_send_leaves_its_connection_in_step() -> None:
    with server_with_topic() as server:
        add_bob(server.tcp_address, None)
        with WireClient(server.tcp_address) as client:
            client.login("bob", "secret")
            assert client.exchange(send_of(SIZE)) == (UNAUTHORIZED, b"")
            client.call(Ping())


def test_who_may_send_holds_as_much_as_the_setting_says() -> None:
    """The others wait with what their connection has room for, and everybody else is served."""
    with server_with_topic({"TCP_MAX_UNFINISHED_SIZE": "100 MB"}) as server:
        add_bob(server.tcp_address, Permissions(GlobalPermissions(send_messages=True)))
        before = resident_bytes(server)
        with WireClient(server.tcp_address) as first, WireClient(server.tcp_address) as second:
            frame = send_of(SIZE)
            for client in (first, second):
                client.login("bob", "secret")
            first.send(frame[:-1])
            second.send(frame[:1_000_000])
            measured(server, 20)
            grown = resident_bytes(server) - before
            assert grown < 100_000_000
            first.send(frame[-1:])
            status, _ = first.receive()
            assert status, "zeros are no messages"
            second.send(frame[1_000_000:])
            assert second.receive() == (status, b"")
            second.call(Ping())
