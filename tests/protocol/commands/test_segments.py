"""The bytes of a deletion of segments."""

import pytest

from borzoi.model.errors import InvalidCommand
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.contract import encode_payload


def test_the_partition_comes_before_the_number_of_segments():
    wire = bytes.fromhex("02027331 02027431 01000000 05000000")
    request = DeleteSegments("s1", "t1", partition_id=1, segments_count=5)
    assert encode_payload(request) == wire
    assert decode_request(Code.DELETE_SEGMENTS, wire) == request
    with pytest.raises(InvalidCommand):
        decode_request(Code.DELETE_SEGMENTS, wire[:-4])
