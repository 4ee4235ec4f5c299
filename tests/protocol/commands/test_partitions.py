"""The bytes of partitions."""

import pytest

from borzoi.model.errors import InvalidCommand
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions, PartitionInfo
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("code", "request_class"),
    [(Code.CREATE_PARTITIONS, CreatePartitions), (Code.DELETE_PARTITIONS, DeletePartitions)],
)
def test_requests_have_the_published_bytes(code, request_class):
    wire = bytes.fromhex("02027331 02027431 02000000")
    assert encode_payload(request_class("s1", "t1", 2)) == wire
    assert decode_request(code, wire) == request_class("s1", "t1", 2)
    with pytest.raises(InvalidCommand):
        decode_request(code, wire[:-1])


def test_a_partition_has_the_published_layout():
    wire = bytes.fromhex(
        "01000000 0200000000000000 030000000400000000000000 0500000000000000 0600000000000000"
    )
    partition = PartitionInfo(
        id=1, created_at=2, segments_count=3, current_offset=4, size_bytes=5, messages_count=6
    )
    assert encode_payload(partition) == wire
    assert PartitionInfo.decode(Reader(wire)) == partition
