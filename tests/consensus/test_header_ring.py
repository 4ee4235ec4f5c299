"""The second copy of the newest headers: slots, damage, and what counts as a header at all."""

from borzoi.consensus.frames import EMPTY_BODY, blank, pack_header, root, seal_prepare
from borzoi.consensus.header_ring import (
    RING_BYTES,
    RING_SLOTS,
    decode_ring,
    encode_ring,
    header_in,
    is_sound,
    slot_position,
)
from borzoi.consensus.messages import HEADER_BYTES, UNSEALED, ZERO, Commit, Prepare
from borzoi.consensus.state import JOURNAL_WRITES_MAX

CLUSTER = b"cluster-of-tests"


def prepare(op: int) -> Prepare:
    return seal_prepare(root(CLUSTER, 0)._replace(checksum=UNSEALED, op=op))


def test_the_ring_holds_more_headers_than_writes_may_wait_for_one_sync():
    assert RING_SLOTS > JOURNAL_WRITES_MAX


def test_slots_follow_each_other_and_wrap():
    assert [slot_position(number) for number in (0, 1, RING_SLOTS - 1, RING_SLOTS)] == [
        0, HEADER_BYTES, RING_BYTES - HEADER_BYTES, 0,
    ]  # fmt: skip


def test_a_ring_reads_back_by_identity():
    headers = [prepare(op) for op in range(1, 4)]
    ring = encode_ring(headers)
    assert len(ring) == RING_BYTES
    assert decode_ring(ring, CLUSTER) == {header.checksum: header for header in headers}


def test_only_the_newest_headers_fit():
    headers = [prepare(op) for op in range(RING_SLOTS + 2)]
    kept = [header.op for header in decode_ring(encode_ring(headers), CLUSTER).values()]
    assert kept == list(range(2, RING_SLOTS + 2))


def test_a_bad_slot_costs_only_itself():
    headers = [prepare(op) for op in range(1, 4)]
    ring = bytearray(encode_ring(headers))
    ring[HEADER_BYTES + 200] ^= 1
    assert [header.op for header in decode_ring(bytes(ring), CLUSTER).values()] == [1, 3]


def test_no_ring_names_nothing():
    assert decode_ring(b"", CLUSTER) == {}


def test_a_ring_is_sound_when_no_used_slot_is_bad():
    ring = bytearray(encode_ring([prepare(op) for op in range(1, 4)]))
    assert is_sound(bytes(ring), CLUSTER)
    ring[HEADER_BYTES + 200] ^= 1
    assert not is_sound(bytes(ring), CLUSTER)


def test_only_a_sealed_prepare_of_this_cluster_is_a_header():
    good = prepare(7)
    # fmt: off
    commit = Commit(
        UNSEALED, EMPTY_BODY, CLUSTER, HEADER_BYTES, 0, 1, 9, 0, ZERO, 0, 0, 0, 0,
    )
    # fmt: on
    assert header_in(pack_header(good), CLUSTER) == good
    assert header_in(pack_header(good)[:-1], CLUSTER) is None
    assert header_in(pack_header(good), b"another-cluster!") is None
    assert header_in(pack_header(commit), CLUSTER) is None
    assert header_in(pack_header(blank(7)), CLUSTER) is None
