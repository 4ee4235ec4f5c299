"""Runs of messages: against a parser that reads one message after the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import Sent, sent, sent_batches, stored

from borzoi.model.errors import (
    InvalidBatch,
    InvalidMessagesSize,
    InvalidOffset,
    InvalidReservedField,
    PayloadTooBig,
    UserHeadersTooBig,
)
from borzoi.model.limits import HEADER_BYTES, PAYLOAD_BYTES_MAX, USER_HEADERS_BYTES_MAX
from borzoi.records.columnar import (
    KEPT_INDEXES_COUNT_MAX,
    Run,
    check_run,
    cuts,
    equal_indexes,
    header_block,
    header_pairs,
    parts,
    request_indexes,
    run_between,
    run_of,
)
from borzoi.records.header import LENGTHS_AT, OFFSET_AT, RESERVED_AT, MessageHeader, unpack_header
from borzoi.records.message import Message, encode_messages
from borzoi.records.user_headers import decode_user_headers


def slow_parse(buffer: bytes) -> list[tuple[MessageHeader, bytes, bytes]]:
    """Header, payload and user headers of each message, one after the other."""
    found = []
    position = 0
    while position < len(buffer):
        header = unpack_header(buffer, position)
        body = position + HEADER_BYTES
        middle = body + header.payload_length
        position = middle + header.user_headers_length
        found.append((header, buffer[body:middle], buffer[middle:position]))
    return found


def sliced(run: Run, starts: Any, ends: Any) -> list[bytes]:
    return [bytes(run.buffer[a:b]) for a, b in zip(starts, ends, strict=True)]


def assert_run_is(run: Run, buffer: bytes) -> None:
    expected = slow_parse(buffer)
    assert run.count == len(expected)
    assert [tuple(row) for row in run.headers.tolist()] == [
        (h.checksum, h.id.to_bytes(16, "little"), *h[2:]) for h, _, _ in expected
    ]
    assert sliced(run, run.payload_starts, run.payload_ends) == [p for _, p, _ in expected]
    assert sliced(run, run.payload_ends, run.ends) == [u for _, _, u in expected]


@given(sent_batches())
def test_a_poll_answer_reads_as_the_slow_parser_reads_it(request: Sent) -> None:
    buffer = bytes(stored(request, base_offset=7).messages)
    run = run_of(buffer)
    assert_run_is(run, buffer)
    check_run(run, 7)


@given(sent_batches(), st.integers(1, 5000))
def test_a_run_in_pieces_is_the_run(request: Sent, bytes_max: int) -> None:
    batch = stored(request)
    run = run_between(batch.messages, batch.ends.astype(np.int64))
    pieces = list(parts(run, bytes_max=bytes_max))
    assert b"".join(piece.buffer for piece in pieces) == bytes(batch.messages)
    at = 0
    for piece in pieces:
        assert_run_is(piece, bytes(piece.buffer))
        check_run(piece, at)
        assert piece.count == 1 or len(piece.buffer) <= bytes_max
        at += piece.count
    assert at == run.count


def test_messages_can_be_left_out_of_a_run() -> None:
    _, messages = encode_messages([Message(b"a"), Message(b"bc"), Message(b"def")])
    run = run_of(messages)
    kept = run.chosen(run.headers["payload_length"] != 2)
    starts, ends = kept.payload_starts.tolist(), kept.payload_ends.tolist()
    found = [bytes(kept.buffer[start:end]) for start, end in zip(starts, ends, strict=True)]
    assert (kept.count, found) == (2, [b"a", b"def"])


def test_cuts_begin_where_the_first_message_does() -> None:
    ends = np.array([110, 120, 130, 300], np.int64)
    assert list(cuts(ends, bytes_max=20, base=100)) == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert list(cuts(ends[:0])) == []


def test_no_messages_are_a_run_too() -> None:
    run = run_of(b"")
    assert run.count == 0
    check_run(run, 3)
    assert list(parts(run)) == []
    assert header_pairs(run).rows.tolist() == []
    some = run_of(bytes(stored(sent([Message(b"a"), Message(b"b")])).messages))
    assert some.part(1, 1).count == 0
    assert bytes(some.part(1, 2).buffer[-1:]) == b"b"


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        (LENGTHS_AT, 1, InvalidMessagesSize),
        (OFFSET_AT, 9, InvalidOffset),
        (RESERVED_AT, 1, InvalidReservedField),
    ],
)
def test_a_header_that_does_not_fit_is_found(
    field: int, value: int, fault: type[InvalidBatch]
) -> None:
    batch = stored(sent([Message(b"first"), Message(b"second")]), base_offset=40)
    damaged = bytearray(batch.messages)
    damaged[HEADER_BYTES + 5 + field] = value
    run = run_between(damaged, batch.ends.astype(np.int64))
    with pytest.raises(fault, match="41"):
        check_run(run, 40)


@pytest.mark.parametrize("ends", [[64, 128], [10, 69], []])
def test_positions_that_do_not_fit_the_bytes_are_refused(ends: list[int]) -> None:
    with pytest.raises(InvalidMessagesSize):
        run_between(bytes(69), np.array(ends, np.int64))


@given(sent_batches())
def test_pairs_of_user_headers_are_those_of_the_slow_parser(request: Sent) -> None:
    """Batches of one size carry bytes that are no headers: those are damaged for both parsers."""
    buffer = bytes(stored(request).messages)
    run = run_of(buffer)
    pairs = header_pairs(run)
    expected: list[tuple[int, int, bytes, int, bytes]] = []
    for row, (_, _, data) in enumerate(slow_parse(buffer)):
        try:
            read = decode_user_headers(data)
        except InvalidBatch:
            assert pairs.damaged[row]
        else:
            assert not pairs.damaged[row]
            expected += [(row, k.kind, k.data, v.kind, v.data) for k, v in read.items()]
    keys = sliced(run, pairs.key_starts, pairs.key_ends)
    values = sliced(run, pairs.value_starts, pairs.value_ends)
    columns = (pairs.rows.tolist(), pairs.key_kinds.tolist(), keys)
    assert list(zip(*columns, pairs.value_kinds.tolist(), values, strict=True)) == expected


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=12))
def test_garbage_in_place_of_user_headers_is_damage_or_reads_the_same(junk: list[bytes]) -> None:
    run = run_of(bytes(stored(sent([Message(b"x", user_headers=data) for data in junk])).messages))
    damaged = []
    for data in junk:
        try:
            decode_user_headers(data)
        except InvalidBatch:
            damaged.append(True)
        else:
            damaged.append(False)
    assert header_pairs(run).damaged.tolist() == damaged


def test_headers_of_a_request_are_those_the_plain_encoder_writes() -> None:
    messages = [
        Message(b"one", 5, b"h", origin_timestamp=9),
        Message(b"", 2**127, b"", origin_timestamp=0),
    ]
    _, encoded = encode_messages(messages)
    ids = np.array([m.id.to_bytes(16, "little") for m in messages], "V16")
    block = header_block(
        np.array([3, 0]), np.array([1, 0]), ids=ids, origin_timestamps=np.array([9, 0])
    )
    assert block[0].tobytes() == encoded[:64]
    assert block[1].tobytes() == encoded[68:]
    assert not header_block(np.array([1]), np.array([0]))["id"].tobytes().strip(b"\0")


def test_indexes_of_a_request_count_from_its_first_message() -> None:
    indexes, _ = encode_messages([Message(b"a"), Message(b"bcd")])
    assert request_indexes(np.array([65, 132])) == indexes
    assert request_indexes(np.array([165, 232]), 100) == indexes


@pytest.mark.parametrize("count", [1, 3, KEPT_INDEXES_COUNT_MAX + 1])
def test_indexes_of_messages_that_all_have_one_size(count: int) -> None:
    ends = np.arange(1, count + 1, dtype=np.int64) * 100
    assert equal_indexes(100, count) == request_indexes(ends)


def test_a_body_that_is_too_big_names_its_row() -> None:
    fits, nothing = np.array([1, 2]), np.array([0, 0])
    with pytest.raises(PayloadTooBig, match="row 1 has 64000001"):
        header_block(np.array([1, PAYLOAD_BYTES_MAX + 1]), nothing)
    with pytest.raises(UserHeadersTooBig, match="row 0"):
        header_block(fits, np.array([USER_HEADERS_BYTES_MAX + 1, 0]))
