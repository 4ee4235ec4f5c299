"""Runs as record batches, and record batches as requests."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import Sent, messages, sent, sent_batches, stored

from borzoi.model.errors import InvalidBatch, InvalidMessagesSize
from borzoi.records import arrow
from borzoi.records.arrow import (
    COLUMN_TYPES,
    DEFAULT_COLUMNS,
    Encoded,
    HeadersForm,
    encode,
    payload_views,
    record_batch,
    requests,
    schema_of,
    timestamps,
    wire_ids,
)
from borzoi.records.batch import receive
from borzoi.records.columnar import Run, run_of
from borzoi.records.message import Message, decode_messages, encode_messages
from borzoi.records.user_headers import HeaderKind, HeaderValue, decode_user_headers

EVERY = tuple(COLUMN_TYPES)
PLACE: dict[str, str | int] = {"stream": "shop", "topic": "orders", "partition": 3}


def run_with(*sent_messages: Message) -> Run:
    return run_of(bytes(stored(sent(sent_messages)).messages))


@given(sent_batches())
def test_columns_hold_what_the_slow_parser_reads(request: Sent) -> None:
    buffer = bytes(stored(request, base_offset=2**40).messages)
    batch = record_batch(run_of(buffer), EVERY, constants=PLACE)
    batch.validate(full=True)
    assert batch.schema == schema_of(EVERY)
    expected = decode_messages(buffer)

    def column(name: str) -> list:
        return batch.column(name).to_pylist()

    assert column("payload") == [m.payload for m in expected]
    assert column("headers") == [m.encoded_headers for m in expected]
    assert column("id") == [m.id.to_bytes(16, "big") for m in expected]
    assert column("offset") == [m.offset for m in expected]
    assert [c % 2**64 for c in column("checksum")] == [m.checksum for m in expected]
    micros = batch.column("origin_timestamp").cast(pa.int64()).to_pylist()
    assert micros == [m.origin_timestamp if m.origin_timestamp < 2**63 else None for m in expected]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [m.timestamp for m in expected]
    for name, value in PLACE.items():
        assert column(name) == [value] * len(expected)


@given(st.lists(st.binary(min_size=10, max_size=40), max_size=20))
def test_views_hold_the_payloads_of_the_column(payloads: list[bytes]) -> None:
    run = run_with(*map(Message, payloads)) if payloads else run_of(b"")
    views = payload_views(run)
    views.validate(full=True)
    assert views.type == pa.binary_view()
    assert views.to_pylist() == payloads


def test_an_empty_run_has_the_schema_all_the_same() -> None:
    for form in HeadersForm:
        batch = record_batch(run_of(b""), EVERY, constants=PLACE, headers=form)
        assert batch.schema == schema_of(EVERY, headers=form)
        assert batch.num_rows == 0


def test_columns_come_in_the_order_they_are_named() -> None:
    batch = record_batch(run_with(Message(b"p")), ("payload", "offset"))
    assert batch.schema.names == ["payload", "offset"]
    assert set(DEFAULT_COLUMNS) <= set(EVERY)


def text_of(value: HeaderValue) -> str:
    plain = value.value
    if isinstance(plain, bytes):
        return plain.hex()
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


@given(st.lists(messages(), min_size=1, max_size=10))
def test_headers_as_a_map_and_as_typed_values(drawn: list[Message]) -> None:
    run = run_with(*drawn)
    typed = record_batch(run, ("headers",), headers=HeadersForm.TYPED)
    mapped = record_batch(run, ("headers",), headers=HeadersForm.MAP)
    typed.validate(full=True)
    mapped.validate(full=True)
    expected = [decode_user_headers(m.encoded_headers) for m in drawn]
    assert typed.column(0).to_pylist() == [
        [{"key": text_of(k), "kind": v.kind.name.lower(), "value": v.data} for k, v in row.items()]
        for row in expected
    ]
    assert mapped.column(0).to_pylist() == [
        [(text_of(k), text_of(v)) for k, v in row.items()] for row in expected
    ]


def test_headers_that_cannot_be_read_are_null_in_both_forms() -> None:
    run = run_with(Message(b"", user_headers=b"\1junk"), Message(b""))
    for form in (HeadersForm.MAP, HeadersForm.TYPED):
        assert record_batch(run, ("headers",), headers=form).column(0).to_pylist() == [None, []]


def test_values_that_do_not_fit_their_kind_are_shown_in_hexadecimal() -> None:
    pairs = {
        HeaderValue.of("a"): HeaderValue(HeaderKind.INT32, b"\x01"),
        HeaderValue.of("b"): HeaderValue(HeaderKind.BOOL, b"\x07"),
        HeaderValue.of("c"): HeaderValue(HeaderKind.STRING, b"ok\xff"),
    }
    batch = record_batch(
        run_with(Message(b"", user_headers=pairs)), ("headers",), headers=HeadersForm.MAP
    )
    assert batch.column(0).to_pylist() == [[("a", "01"), ("b", "07"), ("c", "ok\ufffd")]]


def test_a_run_beyond_two_gibibytes_must_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ARROW_BYTES_MAX", 64)
    with pytest.raises(InvalidMessagesSize, match="cut"):
        record_batch(run_with(Message(b"p")))
    with pytest.raises(InvalidMessagesSize, match="2 GiB"):
        encode(pa.array([b"p"]))


def test_timestamps_that_arrow_cannot_say_are_null() -> None:
    micros = np.array([5, 2**64 - 1], np.uint64)
    assert timestamps(micros).cast(pa.int64()).to_pylist() == [5, None]


@given(st.lists(messages(), max_size=20))
def test_encoded_columns_are_what_the_plain_encoder_writes(drawn: list[Message]) -> None:
    indexes, expected = encode_messages(drawn)
    encoded = encode(
        pa.array([m.payload for m in drawn], pa.binary()),
        headers=pa.array([m.encoded_headers or None for m in drawn], pa.binary()),
        ids=wire_ids(pa.array([m.id.to_bytes(16, "big") for m in drawn], pa.binary())),
        origin_timestamps=np.array([m.origin_timestamp for m in drawn], np.uint64),
    )
    assert bytes(encoded.messages) == expected
    found = list(requests(encoded, bytes_max=2**30, count_max=100))
    assert b"".join(request.indexes for request in found) == indexes


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=40),
    st.integers(1, 2000),
    st.integers(1, 50),
)
def test_requests_are_bounded_and_hold_every_message(
    payloads: list[bytes], bytes_max: int, count_max: int
) -> None:
    encoded = encode(pa.array(payloads, pa.binary()))
    got = []
    for request in requests(encoded, bytes_max=bytes_max, count_max=count_max):
        batch = receive(request.messages, memoryview(request.indexes), request.count)
        assert batch.count <= count_max
        assert batch.count == 1 or batch.size <= bytes_max
        got += [m.payload for m in decode_messages(request.messages)]
    assert got == payloads


def test_text_and_slices_of_a_column_are_encoded_as_they_are_seen() -> None:
    column = pa.array(["zero", "one", "two"]).slice(1)
    assert [m.payload for m in decode_messages(encode(column).messages)] == [b"one", b"two"]
    ids = pa.array([bytes(16), b"\1" * 16, None]).slice(1)
    assert wire_ids(ids).tolist() == [b"\1" * 16, bytes(16)]


def test_null_payloads_and_short_ids_are_refused_with_their_row() -> None:
    with pytest.raises(InvalidMessagesSize, match="row 1 has no payload"):
        encode(pa.array([b"", None]))
    with pytest.raises(InvalidBatch, match="row 0 does not have 16"):
        wire_ids(pa.array([b"short"]))


def test_nothing_to_encode_gives_no_request() -> None:
    encoded = encode(pa.array([], pa.binary()))
    assert isinstance(encoded, Encoded)
    assert list(requests(encoded, bytes_max=1, count_max=1)) == []
