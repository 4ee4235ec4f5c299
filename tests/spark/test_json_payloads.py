"""JSON payloads as columns: whole blocks, and the records in them that are corrupt."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.spark.json_payloads import parsed

COLUMNS = pa.struct([("n", pa.int64()), ("name", pa.string())])
GOOD = [{"n": 1, "name": "a"}, {"n": 2, "name": None}]


def values(*payloads: bytes) -> list[object]:
    return parsed(pa.array(payloads, pa.binary()), COLUMNS).to_pylist()


def test_fields_are_columns_and_missing_ones_are_null() -> None:
    assert values() == []
    assert values(b'{"name": "a", "n": 1, "more": [1]}', b' {\n"n":\r\n2}\n') == GOOD
    assert values(b"{}") == [{"n": None, "name": None}]


@pytest.mark.parametrize(
    "corrupt",
    [
        b"",
        b" ",
        b"junk",
        b"null",
        b"[]",
        b"7",
        b'{"n": 1',
        b'{"n": "1"}',
        b'{"n": 1.5}',
        b'{"n": 1, "n": 2}',
        b'{"name": "\xff"}',
        b'{"n": 1}{"n": 2}',
        b'{"n": 1}\n{"n": 2}',
        # These would be rows of their own, or say which row they are, if lines were only joined.
        b'{}}\n{"p":{}',
        b'{},"n":5}\n{"p":{}',
        b'{},"n":1}\n{"p":{}',
        b'{},"n":5,"p":{}',
        b"{}}\n",
    ],
)
def test_a_corrupt_record_is_null_and_its_neighbours_are_not(corrupt: bytes) -> None:
    good = [b'{"n": 1, "name": "a"}', b'{"n": 2}']
    assert values(corrupt) == [None]
    assert values(good[0], corrupt, good[1]) == [GOOD[0], None, GOOD[1]]
    assert values(corrupt, good[0], good[1], corrupt) == [None, *GOOD, None]


def test_records_are_found_wherever_they_are_in_a_large_block() -> None:
    bad = {0, 17, 4095, 4096, 9999}
    payloads = [b"{" if n in bad else b'{"n": %d}' % n for n in range(10_000)]
    found = parsed(pa.array(payloads), COLUMNS)
    assert {n for n, value in enumerate(found.is_null().to_pylist()) if value} == bad
    numbers = found.field("n").to_pylist()
    assert all(number == n for n, number in enumerate(numbers) if n not in bad)


KINDS = st.sampled_from(
    [
        b'{"n": 3}',
        b' {"name": "b"} ',
        b"junk",
        b"{}}",
        b"{}\n{}",
        b'{"n": 1.5}',
        b'{"n": "1"}',
        b"{",
    ]
)


@given(st.lists(KINDS, max_size=40), st.integers(0, 3))
def test_a_record_yields_the_same_alone_and_among_any_others(
    payloads: list[bytes], start: int
) -> None:
    alone = [value for payload in payloads for value in values(payload)]
    assert parsed(pa.array(payloads, pa.binary())[start:], COLUMNS).to_pylist() == alone[start:]


def test_slices_and_records_larger_than_a_block_of_the_parser() -> None:
    large = b'{"name": "%s"}' % (b"x" * 3_000_000)
    payloads = pa.array([b"junk", large, b'{"n": 5}'], pa.binary())[1:]
    found = parsed(payloads, COLUMNS)
    assert len(found.field("name")[0].as_py()) == 3_000_000
    assert found.field("n").to_pylist() == [None, 5]
