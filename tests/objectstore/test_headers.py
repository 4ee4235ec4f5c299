import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.objectstore.errors import Corrupt
from borzoi.objectstore.headers import (
    HEADER_BYTES,
    Header,
    ObjectKind,
    decode_header,
    encode_header,
    with_checksum,
    without_checksum,
)

FENCE = Header(
    kind=ObjectKind.FENCE,
    log_id=3,
    sequence=77,
    epoch=5,
    nonce=bytes(range(16)),
    created_at=1_700_000_000_000_000,
    mark=141,
)
#: Written once and for all: objects in people's buckets look like this.
GOLDEN = bytes.fromhex(
    "425a4f424a303031"
    "0300010000000000"
    "0300000000000000"
    "4d00000000000000"
    "0500000000000000"
    "000102030405060708090a0b0c0d0e0f"
    "00401e18240a0600"
    "8d00000000000000"
    "0000000000000000"
    "0000000000000000"
)

u64 = st.integers(0, 2**64 - 1)
headers = st.builds(
    Header,
    kind=st.sampled_from(ObjectKind),
    log_id=u64,
    sequence=u64,
    epoch=u64,
    nonce=st.binary(min_size=16, max_size=16),
    created_at=u64,
    mark=u64,
    body_bytes=u64,
    flags=st.integers(0, 2**32 - 1),
    run_count=st.integers(0, 2**32 - 1),
    control_bytes=st.integers(0, 2**32 - 1),
)


def test_the_bytes_are_those_of_the_format() -> None:
    encoded = encode_header(FENCE)
    assert encoded[:88] == GOLDEN
    assert len(encoded) == HEADER_BYTES


@given(headers, st.binary(max_size=20))
def test_a_header_comes_back(header: Header, body: bytes) -> None:
    assert decode_header(encode_header(header) + body, key="k") == header


@given(headers, st.integers(0, HEADER_BYTES * 8 - 1))
def test_a_flipped_bit_is_found(header: Header, bit: int) -> None:
    damaged = bytearray(encode_header(header))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt):
        decode_header(damaged, key="k")


@given(st.binary(max_size=200))
def test_garbage_is_corrupt_and_nothing_else(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_header(data, key="k")
    with pytest.raises(Corrupt):
        without_checksum(data, key="k")


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [(0, b"X", "begins with"), (10, b"\2", "format 2"), (8, b"\x63", "no kind 99")],
)
def test_what_is_wrong_with_a_whole_header_is_said(at: int, value: bytes, text: str) -> None:
    fields = bytearray(encode_header(FENCE)[:88])
    fields[at : at + 1] = value
    whole = with_checksum(fields)
    with pytest.raises(Corrupt, match=text):
        decode_header(whole, key="k")


@given(st.binary(max_size=50))
def test_a_checked_body_comes_back(body: bytes) -> None:
    assert without_checksum(with_checksum(body), key="k") == body
