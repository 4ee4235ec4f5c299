import json

import msgspec
import pytest

from borzoi.archive.markers import (
    FileMark,
    SegmentMarker,
    StateMarker,
    decode_segment_marker,
    decode_state_marker,
    encode_marker,
)
from borzoi.objectstore.errors import Corrupt
from borzoi.storage.segment import SegmentFacts

MARKER = SegmentMarker(
    start_offset=10,
    end_offset=19,
    start_timestamp=100,
    end_timestamp=200,
    messages_count=10,
    size=640,
    log=FileMark("00000000000000000010.log", 640, "0123456789abcdef"),
    index=FileMark("00000000000000000010.index", 160, "fedcba9876543210"),
    archived_at=300,
    server_version="1",
)
FACTS = SegmentFacts(10, 19, 100, 200, 640, True)


def test_a_marker_is_json_that_people_can_read() -> None:
    text = encode_marker(MARKER)
    assert json.loads(text)["log"] == {
        "name": "00000000000000000010.log",
        "size": 640,
        "xxh3": "0123456789abcdef",
    }
    assert text.count(b"\n") > 10
    assert decode_segment_marker(text, key="k") == MARKER


def test_a_state_marker_comes_back() -> None:
    marker = StateMarker(last_index=3, files=(MARKER.log,), archived_at=1, server_version="1")
    assert decode_state_marker(encode_marker(marker), key="k") == marker


@pytest.mark.parametrize(
    "field", ["start_offset", "end_offset", "start_timestamp", "end_timestamp", "size"]
)
def test_another_segment_of_the_same_number_is_told_apart(field: str) -> None:
    assert MARKER.describes(FACTS)
    other = SegmentFacts(**{
        name: getattr(FACTS, name) + (name == field)
        for name in ("start_offset", "end_offset", "start_timestamp", "end_timestamp", "size")
    }, sealed=True)  # fmt: skip
    assert not MARKER.describes(other)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"start_offset": "x"}'])
def test_what_is_no_marker_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="some/key: it is not a marker"):
        decode_segment_marker(data, key="some/key")


def test_a_marker_that_changed_is_corrupt_also_where_it_is_still_json() -> None:
    text = encode_marker(MARKER)
    other = text.replace(b'"end_timestamp": 200', b'"end_timestamp": 201')
    for data in (other, text.replace(b'"check"', b'"chuck"'), text.replace(b"  ", b" "), text[:-1]):
        assert data != text
        json.loads(data)
        with pytest.raises(Corrupt, match="some/key: it is a marker that does not match"):
            decode_segment_marker(data, key="some/key")


def test_a_newer_format_is_refused() -> None:
    newer = msgspec.structs.replace(MARKER, format=2)
    with pytest.raises(Corrupt, match="format 2"):
        decode_segment_marker(encode_marker(newer), key="k")
