"""Single messages of 64 MB that are encrypted: others are served while they come and go."""

import pytest
from tests.support.attacked import KEY, server_with_topic
from tests.support.attackers import attacking, large_message, logged_in
from tests.support.good_client import measured, resident_bytes
from tests.support.polls import poll_of

from borzoi.protocol.commands.messages import PolledMessages
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

ENCRYPTED = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": KEY}
MEBIBYTE = 1 << 20
#: The largest payload that clients may send.
SIZE = 64_000_000
POLL = poll_of(1)


def test_a_good_client_is_served_beside_sends_of_large_messages() -> None:
    with server_with_topic(ENCRYPTED) as server:
        alone = measured(server)
        with attacking("large", server.tcp_address, 1, SIZE):
            beside = measured(server)
        print(f"alone {alone}; beside sends of one message of {SIZE} bytes {beside}")
        assert beside.work < 0.05


def test_a_good_client_is_served_beside_polls_of_large_messages() -> None:
    with server_with_topic(ENCRYPTED) as server:
        with logged_in(server.tcp_address) as client:
            assert client.exchange(large_message(SIZE)) == (0, b"")
            polled = client.call(POLL)
        assert isinstance(polled, PolledMessages)
        (message,) = decode_messages(polled.messages)
        assert message.payload == bytes(SIZE)
        alone, before = measured(server), resident_bytes(server)
        with attacking("polls", server.tcp_address, 4, 1):
            beside = measured(server)
            grown = resident_bytes(server) - before
        print(f"alone {alone}; beside 4 polls of one message of {SIZE} bytes {beside}")
        assert beside.work < 0.05
        assert grown < 64 * MEBIBYTE
