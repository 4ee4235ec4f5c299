"""The bytes of consumer offsets."""

import pytest

from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import InvalidCommand
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.contract import encode_payload

READER = Consumer(ConsumerKind.CONSUMER, 1)
GROUP = Consumer(ConsumerKind.GROUP, "g1")


@pytest.mark.parametrize(
    ("code", "wire", "request_value"),
    [
        (
            Code.GET_CONSUMER_OFFSET,
            "01 010401000000 02027331 02027431 01 03000000",
            GetConsumerOffset(READER, "s1", "t1", 3),
        ),
        (
            Code.STORE_CONSUMER_OFFSET,
            "02 02026731 02027331 02027431 00 00000000 0900000000000000",
            StoreConsumerOffset(GROUP, "s1", "t1", None, 9),
        ),
        (
            Code.STORE_CONSUMER_OFFSET,
            "02 02026731 02027331 02027431 01 04000000 0900000000000000",
            StoreConsumerOffset(GROUP, "s1", "t1", 4, 9),
        ),
        (
            Code.DELETE_CONSUMER_OFFSET,
            "01 010401000000 02027331 02027431 00 00000000",
            DeleteConsumerOffset(READER, "s1", "t1"),
        ),
    ],
)
def test_requests_have_the_published_bytes(code, wire, request_value):
    payload = bytes.fromhex(wire)
    assert encode_payload(request_value) == payload
    assert decode_request(code, payload) == request_value
    for size in range(len(payload)):
        with pytest.raises(InvalidCommand):
            decode_request(code, payload[:size])


def test_an_offset_comes_with_that_of_the_last_message():
    wire = bytes.fromhex("01000000 0200000000000000 0300000000000000")
    offset = ConsumerOffset(partition_id=1, current_offset=2, stored_offset=3)
    assert encode_payload(offset) == wire
    assert ConsumerOffset.decode(Reader(wire)) == offset
