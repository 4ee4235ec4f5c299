from enum import Enum

import pytest

from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)

SNAPSHOT_KINDS = {
    "FILESYSTEM_OVERVIEW": 1,
    "PROCESS_LIST": 2,
    "RESOURCE_USAGE": 3,
    "TEST": 4,
    "SERVER_LOGS": 5,
    "SERVER_CONFIG": 6,
    "ALL": 100,
}


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (TransportKind, {"TCP": 1, "QUIC": 2, "HTTP": 3, "WEBSOCKET": 4}),
        (NodeRole, {"LEADER": 0, "FOLLOWER": 1}),
        (
            NodeStatus,
            {"HEALTHY": 0, "STARTING": 1, "STOPPING": 2, "UNREACHABLE": 3, "MAINTENANCE": 4},
        ),
        (
            SnapshotCompression,
            {"STORED": 1, "DEFLATED": 2, "BZIP2": 3, "ZSTD": 4, "LZMA": 5, "XZ": 6},
        ),
        (SnapshotKind, SNAPSHOT_KINDS),
    ],
)
def test_every_word_has_its_number_of_the_wire(kind: type[Enum], numbers: dict[str, int]) -> None:
    assert [(word.name, word.value) for word in kind] == list(numbers.items())
