"""The bytes of statistics, snapshots, clusters and clients."""

import pytest
from tests.support.wire_client import request_in

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import (
    CacheMetrics,
    ClientDetails,
    ClientGroup,
    ClientInfo,
    Clients,
    ClusterMetadata,
    ClusterNode,
    GetClient,
    GetSnapshot,
    Snapshot,
    Stats,
)
from borzoi.protocol.contract import encode_payload

STATS = Stats(
    process_id=1,
    cpu_usage=2.5,
    total_cpu_usage=3.5,
    memory_usage=4,
    total_memory=5,
    available_memory=6,
    run_time=7,
    start_time=8,
    read_bytes=9,
    written_bytes=10,
    messages_size_bytes=11,
    streams_count=12,
    topics_count=13,
    partitions_count=14,
    segments_count=15,
    messages_count=16,
    clients_count=17,
    consumer_groups_count=18,
    hostname="h",
    os_name="o",
    os_version="v",
    kernel_version="k",
    server_version="0.8.0",
    server_semver=8000,
    cache_metrics=(CacheMetrics(1, 2, 3, 4, 5, 0.5),),
    threads_count=19,
    free_disk_space=20,
    total_disk_space=21,
)
STATS_WIRE = bytes.fromhex(
    "01000000 00002040 00006040"
    "0400000000000000 0500000000000000 0600000000000000 0700000000000000"
    "0800000000000000 0900000000000000 0a00000000000000 0b00000000000000"
    "0c000000 0d000000 0e000000 0f000000 1000000000000000 11000000 12000000"
    "01000000 68 01000000 6f 01000000 76 01000000 6b 05000000 302e382e30"
    "401f0000"
    "01000000 01000000 02000000 03000000 0400000000000000 0500000000000000 0000003f"
    "13000000 1400000000000000 1500000000000000"
)


def test_statistics_have_the_published_layout():
    assert encode_payload(STATS) == STATS_WIRE
    assert Stats.decode(Reader(STATS_WIRE)) == STATS


def test_statistics_cut_off_anywhere_are_refused():
    for size in range(len(STATS_WIRE)):
        with pytest.raises(InvalidCommand):
            Stats.decode(Reader(STATS_WIRE[:size]))


def test_a_server_without_a_version_number_says_zero():
    wire = STATS_WIRE.replace(bytes.fromhex("401f0000"), bytes(4))
    assert Stats.decode(Reader(wire)).server_semver is None
    assert encode_payload(Stats.decode(Reader(wire))) == wire


def test_a_snapshot_asks_for_kinds_in_a_compression():
    request = GetSnapshot(
        SnapshotCompression.DEFLATED, (SnapshotKind.TEST, SnapshotKind.SERVER_CONFIG)
    )
    assert encode_payload(request) == b"\x02\x02\x04\x06"
    assert request_in(Code.GET_SNAPSHOT, b"\x02\x02\x04\x06") == request
    assert request_in(Code.GET_SNAPSHOT, b"\x01\x01\x64").kinds == (SnapshotKind.ALL,)
    assert request_in(Code.GET_SNAPSHOT, b"\x01\x00").kinds == ()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01",
        b"\x00\x01\x04",
        b"\x07\x01\x04",
        b"\x01\x01\x07",
        b"\x01\x01\x00",
        b"\x01\x02\x04",
        b"\x01\x02\x64\x04",
        b"\x01\x02\x64\x64",
    ],
)
def test_a_wrong_snapshot_is_malformed(payload):
    with pytest.raises(InvalidCommand):
        request_in(Code.GET_SNAPSHOT, payload)


def test_a_snapshot_is_its_archive():
    assert Snapshot.decode(Reader(b"PK\x05\x06")) == Snapshot(b"PK\x05\x06")
    assert encode_payload(Snapshot(b"PK\x05\x06")) == b"PK\x05\x06"


CLUSTER_WIRE = bytes.fromhex(
    "0b000000 73696e676c652d6e6f6465 01000000"
    "09000000 696767792d6e6f6465 09000000 3132372e302e302e31"
    "9a1f 901f b80b 9c1f 00 00"
)


def test_a_cluster_lists_its_nodes():
    cluster = ClusterMetadata(
        "single-node",
        (
            ClusterNode(
                "iggy-node",
                "127.0.0.1",
                tcp_port=8090,
                quic_port=8080,
                http_port=3000,
                websocket_port=8092,
                role=NodeRole.LEADER,
                status=NodeStatus.HEALTHY,
            ),
        ),
    )
    assert encode_payload(cluster) == CLUSTER_WIRE
    assert ClusterMetadata.decode(Reader(CLUSTER_WIRE)) == cluster


@pytest.mark.parametrize("end", [b"\x02\x00", b"\x00\x05"])
def test_a_node_of_an_unknown_role_or_status_is_refused(end):
    with pytest.raises(InvalidCommand):
        ClusterMetadata.decode(Reader(CLUSTER_WIRE[:-2] + end))


CLIENT_WIRE = bytes.fromhex("07000000 ffffffff 02 03000000 613a31 02000000")


def test_an_unauthenticated_client_has_no_user():
    client = ClientInfo(7, None, TransportKind.QUIC, "a:1", 2)
    assert encode_payload(client) == CLIENT_WIRE
    assert ClientInfo.decode(Reader(CLIENT_WIRE)) == client
    assert encode_payload(Clients((client, client))) == CLIENT_WIRE * 2
    assert Clients.decode(Reader(CLIENT_WIRE * 2)).clients == (client, client)


def test_the_details_of_a_client_list_its_groups():
    details = ClientDetails(
        7, None, TransportKind.QUIC, "a:1", (ClientGroup(1, 2, 3), ClientGroup(4, 5, 6))
    )
    wire = CLIENT_WIRE + bytes.fromhex("010000000200000003000000040000000500000006000000")
    assert details.consumer_groups_count == 2
    assert encode_payload(details) == wire
    assert ClientDetails.decode(Reader(wire)) == details
    with pytest.raises(InvalidFormat):
        ClientDetails.decode(Reader(wire[:-12]))
    with pytest.raises(InvalidCommand):
        ClientDetails.decode(Reader(wire[:-1]))


@pytest.mark.parametrize("transport", [0, 5])
def test_an_unknown_transport_is_refused(transport):
    with pytest.raises(InvalidCommand):
        ClientInfo.decode(Reader(CLIENT_WIRE[:8] + bytes([transport]) + CLIENT_WIRE[9:]))


def test_a_client_is_asked_for_by_number():
    assert encode_payload(GetClient(0x01020304)) == b"\x04\x03\x02\x01"
    assert request_in(Code.GET_CLIENT, b"\x04\x03\x02\x01") == GetClient(0x01020304)
    with pytest.raises(InvalidCommand):
        request_in(Code.GET_CLIENT, b"\x01\x02\x03")
