from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)


def test_every_word_has_its_number_of_the_wire() -> None:
    assert {kind.name: kind.value for kind in TransportKind} == {
        "TCP": 1,
        "QUIC": 2,
        "HTTP": 3,
        "WEBSOCKET": 4,
    }
    assert {role.name: role.value for role in NodeRole} == {"LEADER": 0, "FOLLOWER": 1}
    assert [status.name for status in NodeStatus] == [
        "HEALTHY",
        "STARTING",
        "STOPPING",
        "UNREACHABLE",
        "MAINTENANCE",
    ]
    assert [status.value for status in NodeStatus] == [0, 1, 2, 3, 4]


def test_snapshots_name_their_contents_and_their_compression() -> None:
    assert {kind.name: kind.value for kind in SnapshotCompression} == {
        "STORED": 1,
        "DEFLATED": 2,
        "BZIP2": 3,
        "ZSTD": 4,
        "LZMA": 5,
        "XZ": 6,
    }
    assert {kind.name: kind.value for kind in SnapshotKind} == {
        "FILESYSTEM_OVERVIEW": 1,
        "PROCESS_LIST": 2,
        "RESOURCE_USAGE": 3,
        "TEST": 4,
        "SERVER_LOGS": 5,
        "SERVER_CONFIG": 6,
        "ALL": 100,
    }
