"""Torn tails, bit rot and gaps in real bytes; the log that a restart may claim (S4-S6)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.consensus.config import Config
from borzoi.consensus.frames import checksum, root, seal_prepare
from borzoi.consensus.header_ring import RING_SLOTS, decode_ring, encode_ring
from borzoi.consensus.journal import (
    Gap,
    JournalRecord,
    JournalScan,
    encode_record,
    record_bytes,
    recover,
    ring_after,
    scan,
)
from borzoi.consensus.messages import UNSEALED, ZERO, Prepare
from borzoi.consensus.superblock import Superblock, genesis

CLUSTER = b"cluster-of-tests"
CONFIG = Config(cluster=CLUSTER, replica_id=0, replica_count=3)
ROOT = root(CLUSTER, 0)


def body_of(op: int) -> bytes:
    return b"body of op %d " % op * (1 + op % 5)


def chain(count: int, *, parent: Prepare = ROOT, view: int = 0, commit: int = 0) -> list[Prepare]:
    headers: list[Prepare] = []
    for op in range(parent.op + 1, parent.op + count + 1):
        body = body_of(op)
        # fmt: off
        parent = seal_prepare(Prepare(
            UNSEALED, checksum(body), CLUSTER, 256 + len(body), view, 1, 6, 0, ZERO,
            parent.checksum, ZERO, op, commit, 1000 + op, 0, 4, 0, 0,
        ))
        # fmt: on
        headers.append(parent)
    return headers


def bytes_of(headers: list[Prepare]) -> bytes:
    return b"".join(encode_record(header, body_of(header.op)) for header in headers)


def found(*headers: Prepare, gaps: tuple[int, ...] = (), bad: tuple[int, ...] = ()) -> JournalScan:
    records = tuple(JournalRecord(header, header.op not in bad) for header in headers)
    return JournalScan(records, tuple(Gap(after) for after in gaps))


def superblock(**changes: object) -> Superblock:
    return msgspec.structs.replace(genesis(CONFIG), **changes)


def test_records_are_frames_padded_to_64_bytes():
    header = chain(1)[0]
    raw = encode_record(header, body_of(1))
    assert len(raw) == record_bytes(header.size)
    assert len(raw) % 64 == 0
    assert raw[256 : header.size] == body_of(1)
    trailer = raw[-64:]
    assert trailer[:8] == b"BRZTRAIL"
    assert trailer[8:16] == (1).to_bytes(8, "little")
    assert trailer[16:32] == header.checksum
    assert trailer[32:36] == header.view.to_bytes(4, "little")
    assert trailer[36:40] == header.size.to_bytes(4, "little")
    assert trailer[56:] == checksum(trailer[:56])[:8]


def test_a_whole_journal_reads_back_and_ends_where_the_next_record_goes():
    headers = chain(5)
    raw = bytes_of(headers)
    result = scan(raw + bytes(4096), CLUSTER)
    assert [record.header for record in result.records] == headers
    assert all(record.readable for record in result.records)
    assert result.end == len(raw)


@given(st.integers(1, 5), st.data())
def test_a_tail_torn_at_any_byte_is_cut(count, data):
    headers = chain(count)
    whole = bytes_of(headers[:-1])
    last = encode_record(headers[-1], body_of(count))
    cut = data.draw(st.integers(0, headers[-1].size - 1))
    result = scan(whole + last[:cut] + bytes(1024), CLUSTER)
    survived = [record.header for record in result.records]
    assert survived == headers[: len(survived)]
    assert len(survived) >= count - 1
    assert result.gaps == ()
    assert result.end == sum(record_bytes(header.size) for header in survived)


def test_a_journal_that_ends_inside_a_body_is_torn():
    headers = chain(2)
    raw = bytes_of(headers)
    assert len(scan(raw[: len(raw) - 100], CLUSTER).records) == 1


def test_a_rotten_body_before_valid_records_keeps_its_header():
    headers = chain(3)
    raw = bytearray(bytes_of(headers))
    raw[record_bytes(headers[0].size) + 260] ^= 1
    result = scan(bytes(raw), CLUSTER)
    assert [record.readable for record in result.records] == [True, False, True]


def rotten(headers: list[Prepare], *positions: tuple[int, int]) -> JournalScan:
    """Scan after flipping a bit at (record, byte); negative bytes count from the record's end."""
    raw = bytearray(bytes_of(headers))
    for record, byte in positions:
        start = sum(record_bytes(header.size) for header in headers[: record + (byte < 0)])
        raw[start + byte] ^= 1
    return scan(bytes(raw), CLUSTER)


def test_a_rotten_header_before_valid_records_is_a_gap_that_its_trailer_names():
    headers = chain(4, view=7)
    result = rotten(headers, (1, 130))
    assert [record.header.op for record in result.records] == [1, 3, 4]
    assert result.gaps == (Gap(1, 2, headers[1].checksum, 7),)


def test_two_rotten_headers_in_a_row_are_two_named_gaps():
    headers = chain(4)
    result = rotten(headers, (1, 130), (2, 10))
    assert [gap.op for gap in result.gaps] == [2, 3]


def test_without_its_trailer_a_gap_has_no_name():
    headers = chain(4)
    assert rotten(headers, (1, 130), (1, -40)).gaps == (Gap(1),)
    assert rotten(headers, (1, 130), (1, -60)).gaps == (Gap(1),)
    assert [gap.op for gap in rotten(headers, (1, 9), (2, 9), (2, -1)).gaps] == [2, 0]
    assert [gap.op for gap in rotten(headers, (1, 9), (1, -1), (2, 9)).gaps] == [0, 3]


def test_a_body_may_contain_the_magic_of_trailers():
    body = b"BRZTRAIL" * 40
    header = seal_prepare(chain(1)[0]._replace(size=256 + len(body), checksum_body=checksum(body)))
    raw = bytearray(encode_record(header, body) + bytes_of(chain(2)[1:]))
    raw[3] ^= 1
    assert scan(bytes(raw), CLUSTER).gaps == (Gap(0, 1, header.checksum, 0),)


def test_garbage_that_mentions_the_cluster_is_no_record():
    headers = chain(1)
    noise = bytes(32) + CLUSTER + bytes(16) + CLUSTER + b"\xff" * 400
    result = scan(bytes_of(headers) + noise + bytes(512), CLUSTER)
    assert [record.header.op for record in result.records] == [1]
    assert result.gaps == ()


def test_a_journal_may_end_right_after_a_mention_of_the_cluster():
    headers = chain(1)
    noise = b"\xff" * 700 + CLUSTER + b"\xff" * 100
    assert len(scan(bytes_of(headers) + noise, CLUSTER).records) == 1


def test_a_header_with_an_impossible_size_is_no_record():
    header = seal_prepare(chain(1)[0]._replace(size=255))
    assert scan(encode_record(header, b"") + bytes(512), CLUSTER).records == ()


@given(st.binary(max_size=2000))
def test_garbage_never_raises(data):
    scan(data, CLUSTER)


def test_the_log_extends_the_suffix_with_records_of_its_view_that_chain():
    headers = chain(6)
    log = recover(superblock(), found(*headers), 32)
    assert log.op == 6
    assert log.canon[6] == headers[5]
    assert not log.broken


def test_records_of_older_views_above_the_suffix_are_dead():
    headers = chain(4)
    log = recover(superblock(view=3, log_view=3, suffix=(headers[1],)), found(*headers), 32)
    assert log.op == 2
    assert log.canon == {1: headers[0], 2: headers[1]}


def test_the_chain_below_the_suffix_stops_at_a_hole_and_at_the_checkpoint():
    headers = chain(6)
    log = recover(superblock(suffix=(headers[5],)), found(*headers[3:5]), 32)
    assert sorted(log.canon) == [4, 5, 6]
    at_checkpoint = superblock(suffix=(headers[5],), checkpoint_op=4)
    assert sorted(recover(at_checkpoint, found(*headers), 32).canon) == [4, 5, 6]


def test_the_commit_is_bounded_from_below_by_everything_durable():
    headers = chain(6, commit=2)
    assert recover(superblock(), found(*headers), 32).commit_max == 2
    assert recover(superblock(), found(*headers), 2).commit_max == 4
    assert recover(superblock(commit=5), found(*headers), 32).commit_max == 5


def test_a_faulty_record_is_forgiven_when_another_copy_reads():
    headers = chain(3)
    log = recover(superblock(), found(*headers, bad=(2,)), 32)
    assert list(log.faulty) == [headers[1].checksum]
    again = found(*headers, bad=(2,))
    repaired = JournalScan((*again.records, JournalRecord(headers[1], True)))
    assert recover(superblock(), repaired, 32).faulty == {}


def test_a_single_lost_record_is_named_by_its_successor_and_stays_blank():
    headers = chain(4)
    log = recover(superblock(), found(headers[0], headers[2], headers[3], gaps=(1,)), 32)
    assert log.lost == {headers[1].checksum: 2}
    assert (log.op, log.broken) == (4, False)
    assert 2 not in log.canon


def test_records_of_the_logs_own_view_are_canonical_below_a_lost_one():
    """A later superblock may begin above the lost record; what lies below it is still known."""
    headers = chain(5)
    gap = Gap(3, 4, headers[3].checksum, 0)
    records = tuple(JournalRecord(headers[at], True) for at in (0, 1, 2, 4))
    log = recover(superblock(suffix=(headers[4],)), JournalScan(records, (gap,)), 32)
    assert sorted(log.canon) == [1, 2, 3, 5]
    inherited = superblock(view=2, log_view=2, suffix=(headers[4],))
    assert sorted(recover(inherited, JournalScan(records, (gap,)), 32).canon) == [5]


def test_a_lost_first_record_is_named_too():
    headers = chain(3)
    log = recover(superblock(), found(*headers[1:], gaps=(0,)), 32)
    assert (log.lost, log.broken) == ({headers[0].checksum: 1}, False)


def test_a_named_gap_needs_no_neighbours():
    headers = chain(6)
    named = Gap(3, 2, headers[1].checksum)
    records = tuple(JournalRecord(headers[at], True) for at in (0, 2, 4, 3, 5))
    log = recover(superblock(), JournalScan(records, (named,)), 32)
    assert (log.lost, log.broken, log.op) == ({headers[1].checksum: 2}, False, 6)
    again = JournalScan((*records, JournalRecord(headers[1], True)), (named,))
    assert recover(superblock(), again, 32).lost == {}


def test_a_log_whose_next_op_is_lost_is_broken_unless_that_op_was_of_an_older_view():
    headers = chain(3)
    records = (JournalRecord(headers[0], True), JournalRecord(headers[1], True))
    lost = Gap(1, 3, headers[2].checksum, 0)
    assert recover(superblock(), JournalScan(records, (lost,)), 32).broken
    newer = superblock(view=4, log_view=4, suffix=(headers[1],))
    assert not recover(newer, JournalScan(records, (lost,)), 32).broken


def test_a_gap_that_cannot_be_named_breaks_the_log():
    headers = chain(6)
    assert recover(superblock(), found(headers[0], *headers[3:], gaps=(1,)), 32).broken
    repeated = found(headers[0], headers[1], headers[0], headers[2], gaps=(3,))
    assert recover(superblock(), repeated, 32).broken


def test_a_gap_before_everything_the_checkpoint_covers_says_nothing():
    headers = chain(6)
    covered = superblock(suffix=(headers[4],), checkpoint_op=4, commit=4)
    assert not recover(covered, found(*headers[4:], gaps=(0,)), 32).broken


def test_a_lost_record_whose_successor_is_of_another_view_ends_the_log():
    headers = chain(1)
    elsewhere = chain(3, parent=headers[0], view=9)
    journal = found(headers[0], elsewhere[1], elsewhere[2], gaps=(1,))
    assert recover(superblock(), journal, 32).op == 1
    later = superblock(view=10, log_view=10, suffix=(headers[0],))
    assert not recover(later, journal, 32).broken


# -- with the ring of redundant headers (S5) ------------------------------------------------------


def spoiled(headers: list[Prepare], op: int, *, header_too: bool) -> bytes:
    """The journal of these records, the one of `op` rotten in its body or in its header."""
    raw = bytearray()
    for header in headers:
        record = bytearray(encode_record(header, body_of(header.op)))
        if header.op == op:
            record[100 if header_too else 260] ^= 1
        raw += record
    return bytes(raw)


TABLE = [
    # header bad, last record, in the ring -> readable ops, faulty ops, lost ops
    (False, False, True, [1, 2, 4], [3], []),
    (False, False, False, [1, 2, 4], [3], []),
    (False, True, True, [1, 2, 3], [4], []),
    (False, True, False, [1, 2, 3], [], []),
    (True, False, True, [1, 2, 4], [3], []),
    (True, False, False, [1, 2, 4], [], [3]),
    (True, True, True, [1, 2, 3], [4], []),
    (True, True, False, [1, 2, 3], [], []),
]


@pytest.mark.parametrize(("header_bad", "is_last", "in_ring", "readable", "faulty", "lost"), TABLE)
def test_the_ring_tells_rot_from_a_torn_write(header_bad, is_last, in_ring, readable, faulty, lost):
    headers = chain(4)
    op = 4 if is_last else 3
    ring = encode_ring([header for header in headers if in_ring or header.op != op])
    scanned = scan(spoiled(headers, op, header_too=header_bad), CLUSTER, ring)
    log = recover(superblock(), scanned, 32)
    assert sorted(header.op for header in log.readable.values()) == readable
    assert sorted(header.op for header in log.faulty.values()) == faulty
    assert sorted(log.lost.values()) == lost
    assert not log.broken
    assert log.op == max(readable + faulty + lost)


@pytest.mark.parametrize("header_bad", [False, True])
def test_a_rotten_last_record_is_not_overwritten(header_bad):
    headers = chain(4)
    raw = spoiled(headers, 4, header_too=header_bad)
    assert scan(raw + bytes(512), CLUSTER, encode_ring(headers)).end == len(raw)
    assert scan(raw + bytes(512), CLUSTER).end == len(bytes_of(headers[:3]))


@given(cut=st.integers(0, 400))
def test_a_write_torn_at_any_byte_is_cut_when_the_ring_does_not_name_it(cut):
    headers = chain(3)
    whole = bytes_of(headers[:2])
    raw = whole + encode_record(headers[2], body_of(3))[: min(cut, 255 + len(body_of(3)))]
    scanned = scan(raw, CLUSTER, encode_ring(headers[:2]))
    assert [record.header.op for record in scanned.records] == [1, 2]
    assert (scanned.gaps, scanned.redundant, scanned.end) == ((), (), len(whole))


def test_the_whole_last_batch_may_rot():
    headers = chain(4)
    raw = bytearray(bytes_of(headers))
    for op in (3, 4):
        start = len(bytes_of(headers[: op - 1]))
        raw[start + 20 : start + 300] = bytes(280)
    scanned = scan(bytes(raw), CLUSTER, encode_ring(headers))
    log = recover(superblock(), scanned, 32)
    assert sorted(header.op for header in log.faulty.values()) == [3, 4]
    assert (log.op, log.broken) == (4, False)


def test_headers_of_recycled_records_say_nothing():
    headers = chain(6)
    scanned = scan(bytes_of(headers[4:]), CLUSTER, encode_ring(headers))
    assert [header.op for header in scanned.redundant] == [1, 2, 3, 4]
    log = recover(superblock(checkpoint_op=4, suffix=(headers[3],)), scanned, 32)
    assert (log.faulty, log.op, log.broken) == ({}, 6, False)


def test_a_torn_tail_is_overwritten_though_older_records_were_recycled():
    """Left in the middle of the file it would be a gap without a name at every later start."""
    headers = chain(7)
    whole = bytes_of(headers[4:6])
    torn = whole + encode_record(headers[6], body_of(7))[:200]
    scanned = scan(torn, CLUSTER, encode_ring(headers[:6]), checkpoint_op=4)
    assert (scanned.redundant, scanned.end) == ((), len(whole))


def test_a_torn_tail_is_overwritten_though_a_record_before_it_rotted():
    headers = chain(5)
    torn = spoiled(headers[:4], 2, header_too=True)
    whole = len(torn)
    torn += encode_record(headers[4], body_of(5))[:200]
    scanned = scan(torn, CLUSTER, encode_ring(headers[:4]))
    assert [header.op for header in scanned.redundant] == [2]
    assert scanned.end == whole


def test_the_ring_names_a_gap_whose_trailer_is_gone():
    headers = chain(4)
    start = len(bytes_of(headers[:2]))
    raw = bytearray(bytes_of(headers))
    end = start + record_bytes(headers[2].size)
    raw[start:end] = bytes(end - start)
    scanned = scan(bytes(raw), CLUSTER, encode_ring(headers))
    assert scanned.gaps == (Gap(2),)
    log = recover(superblock(), scanned, 32)
    assert sorted(header.op for header in log.faulty.values()) == [3]
    assert (log.lost, log.op, log.broken) == ({}, 4, False)


def without_a_name(headers: list[Prepare], index: int) -> bytes:
    """The journal of these records, nothing left of one: a write the device never made."""
    raw = bytearray(bytes_of(headers))
    start = len(bytes_of(headers[:index]))
    end = start + record_bytes(headers[index].size)
    raw[start:end] = bytes(end - start)
    return bytes(raw)


def test_a_ring_that_reaches_back_speaks_for_a_gap_without_a_name():
    """Found by a seed: repaired since, so its neighbours in the file do not identify it."""
    one, two, three, four = chain(4)
    raw = without_a_name([one, three, two, four, three], 1)
    ring = encode_ring([one, three, two, four])
    scanned = scan(raw, CLUSTER, ring, ring_covers=True)
    assert scanned.gaps == (Gap(1, covered=True),)
    log = recover(superblock(), scanned, 32)
    assert (log.op, log.lost, log.faulty, log.broken) == (4, {}, {}, False)
    assert recover(superblock(), scan(raw, CLUSTER, ring), 32).broken


def test_what_a_covered_gap_held_is_faulty_when_it_was_not_repaired():
    one, two, three, four = chain(4)
    raw = without_a_name([one, three, two, four], 1)
    scanned = scan(raw, CLUSTER, encode_ring([one, three, two, four]), ring_covers=True)
    log = recover(superblock(), scanned, 32)
    assert [header.op for header in log.faulty.values()] == [3]
    assert (log.op, log.broken) == (4, False)


def test_a_ring_that_began_later_or_has_a_bad_slot_speaks_for_no_gap():
    one, two, three, four = chain(4)
    raw = without_a_name([one, three, two, four, three], 1)
    later = scan(raw, CLUSTER, encode_ring([two, four]), ring_covers=True)
    assert later.gaps == (Gap(1),)
    ring = bytearray(encode_ring([one, three, two, four]))
    ring[300] ^= 1
    damaged = scan(raw, CLUSTER, bytes(ring), ring_covers=True)
    assert damaged.gaps == (Gap(1),)
    assert recover(superblock(), damaged, 32).broken
    # The next start must not take the new ring for one that reaches back over the gap.
    again = scan(raw, CLUSTER, ring_after(damaged), ring_covers=True)
    assert again.gaps == (Gap(1),)


def test_a_record_that_was_written_again_does_not_make_the_ring_reach_back():
    one, two, three, four = chain(4)
    raw = without_a_name([one, three, two, four, one], 1)
    scanned = scan(raw, CLUSTER, encode_ring([four, one]), ring_covers=True)
    assert scanned.gaps == (Gap(1),)


def test_a_named_gap_keeps_its_name():
    headers = chain(4)
    raw = spoiled(headers, 3, header_too=True)
    scanned = scan(raw, CLUSTER, encode_ring(headers), ring_covers=True)
    assert [(gap.op, gap.covered) for gap in scanned.gaps] == [(3, False)]


def test_a_start_puts_every_survivor_of_a_power_cut_into_the_ring():
    headers = chain(5)
    # Op 2 rotted, and op 5 was written but not reported before the power went.
    scanned = scan(spoiled(headers, 2, header_too=True), CLUSTER, encode_ring(headers[:4]))
    ring = decode_ring(ring_after(scanned), CLUSTER)
    assert sorted(header.op for header in ring.values()) == [1, 2, 3, 4, 5]


def test_what_only_the_ring_knows_stays_in_it_before_everything_else():
    headers = chain(RING_SLOTS + 3)
    few = JournalScan(tuple(JournalRecord(header, True) for header in headers[2:]))
    assert [h.op for h in decode_ring(ring_after(few), CLUSTER).values()][:2] == [4, 5]
    full = JournalScan((JournalRecord(headers[-1], True),), redundant=tuple(headers[:RING_SLOTS]))
    kept = [header.op for header in decode_ring(ring_after(full), CLUSTER).values()]
    assert kept == list(range(1, RING_SLOTS + 1))
