import pytest

from borzoi.archive.layout import (
    Life,
    SegmentPlace,
    life_prefix,
    marker_key,
    place_of,
    state_index_of,
    state_prefix,
)
from borzoi.model.namespace import Namespace
from borzoi.objectstore.keys import checked_key

LIFE = Life(Namespace(1, 22, 333), 1_700_000_000_000_000)


def test_keys_are_those_of_the_format() -> None:
    prefix = life_prefix("node", LIFE)
    assert prefix == "node/streams/1/topics/22/partitions/333/1700000000000000/"
    key = marker_key("node", SegmentPlace(LIFE, 5))
    assert key == prefix + "00000000000000000005.json"
    assert checked_key(key) == key
    assert state_prefix("node", 7) == "node/state/00000000000000000007/"


def test_a_marker_s_key_tells_its_segment() -> None:
    place = SegmentPlace(LIFE, 2**63)
    assert place_of("node", marker_key("node", place)) == place
    assert state_index_of("node", state_prefix("node", 7) + "marker.json") == 7


@pytest.mark.parametrize(
    "key",
    [
        "node/streams/1/topics/2/partitions/3/4/00000000000000000005.log",
        "node/streams/1/topics/2/partitions/3/4/5.json",
        "other/streams/1/topics/2/partitions/3/4/00000000000000000005.json",
        "node/state/00000000000000000007/marker.json",
    ],
)
def test_other_keys_are_no_markers_of_segments(key: str) -> None:
    assert place_of("node", key) is None
    assert state_index_of("node", "node/state/00000000000000000007/info.json") is None
