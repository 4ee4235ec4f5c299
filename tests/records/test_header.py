"""The 64 bytes in front of a message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import MessageTooSmall
from borzoi.model.limits import U32_MAX, U64_MAX, U128_MAX
from borzoi.records.header import HEADER_DTYPE, MessageHeader, pack_header, unpack_header

U32 = st.integers(0, U32_MAX)
U64 = st.integers(0, U64_MAX)
HEADERS = st.builds(MessageHeader, U64, st.integers(0, U128_MAX), U64, U64, U64, U32, U32, U64)

# Written by the published server: id 2, offset 6, payload "hello", two user headers.
STORED = bytes.fromhex(
    "355134079e34374d02000000000000000000000000000000060000000000000000401e18240a0600"
    "ff3f1e18240a06001b00000005000000000000000000000068656c6c6f"
    "02010000006b02010000007602010000006e0604000000fbffffff"
)
STORED_HEADER = MessageHeader(
    checksum=5563973717969883445,
    id=2,
    offset=6,
    timestamp=1_700_000_000_000_000,
    origin_timestamp=1_699_999_999_999_999,
    user_headers_length=27,
    payload_length=5,
)


def test_a_header_of_the_published_server_is_read_field_by_field() -> None:
    assert unpack_header(STORED) == STORED_HEADER
    assert STORED_HEADER.size == len(STORED)


def test_a_header_is_written_as_the_published_server_writes_it() -> None:
    assert pack_header(STORED_HEADER) == STORED[:64]


@given(HEADERS, st.binary(max_size=9))
def test_a_header_survives_packing_at_any_position(header: MessageHeader, before: bytes) -> None:
    assert unpack_header(before + pack_header(header), len(before)) == header


@given(HEADERS)
def test_numpy_reads_the_same_fields(header: MessageHeader) -> None:
    (read,) = np.frombuffer(pack_header(header), HEADER_DTYPE)
    for name in HEADER_DTYPE.names or ():
        value = read[name]
        number = int.from_bytes(value.tobytes(), "little") if name == "id" else int(value)
        assert number == getattr(header, name)


@pytest.mark.parametrize("position", [0, 1, 64, 65])
def test_too_few_bytes_are_no_header(position: int) -> None:
    with pytest.raises(MessageTooSmall):
        unpack_header(bytes(63 + min(position, 1)), max(position, 1))
