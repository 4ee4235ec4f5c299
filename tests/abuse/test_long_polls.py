"""Polls of 64 MB that must be decrypted or inflated: others are served meanwhile."""

import pytest
from tests.support.attacked import (
    MESSAGES,
    PAYLOAD_BYTES,
    root,
    server_with_messages,
    server_with_topic,
)
from tests.support.attackers import attacking
from tests.support.good_client import measured, resident_bytes
from tests.support.polls import poll_of
from tests.support.sends import send_frame
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.messages import PolledMessages
from borzoi.records.message import decode_messages

pytestmark = pytest.mark.system

MEBIBYTE = 1 << 20
POLL = poll_of(MESSAGES)


@pytest.mark.parametrize("kind", ["encrypted", "zstd"])
def test_a_good_client_is_served_beside_long_polls(kind: str) -> None:
    with server_with_messages(kind) as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            polled = client.call(POLL)
        assert isinstance(polled, PolledMessages)
        offsets = [message.offset for message in decode_messages(polled.messages)]
        assert offsets == [*range(MESSAGES)]
        alone, before = measured(server), resident_bytes(server)
        with attacking("polls", server.tcp_address, 4, MESSAGES):
            beside = measured(server)
            grown = resident_bytes(server) - before
        print(f"{kind}: alone {alone}; beside 4 polls {beside}; {grown / MEBIBYTE:.0f} MiB more")
        assert beside.work < 0.05
        assert grown < 64 * MEBIBYTE


def test_five_thousand_messages_of_20_kb_come_back_whole() -> None:
    """In one request: 100 MB, from a plain segment without a byte of memory."""
    with server_with_topic() as server, WireClient(server.tcp_address) as client:
        client.login()
        frame = send_frame(*[bytes(20_000)] * 50)
        for _ in range(100):
            assert client.exchange(frame) == (0, b"")
        before = resident_bytes(server)
        polled = client.call(POLL)
        assert isinstance(polled, PolledMessages)
        assert polled.messages_count == 5000
        assert len(polled.messages) == 5000 * (20_000 + 64)
        assert resident_bytes(server) - before < 10 * MEBIBYTE


def test_an_operator_may_want_shorter_polls() -> None:
    settings = {"SYSTEM_PARTITION_MAX_POLL_SIZE": "1 MB"}
    with server_with_messages("plain", settings) as server, root(server) as client:
        polled = client.call(POLL)
        assert isinstance(polled, PolledMessages)
        assert polled.messages_count == 1_000_000 // (PAYLOAD_BYTES + 64)
