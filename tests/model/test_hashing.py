import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.hashing import murmur3_32
from borzoi.model.limits import U32_MAX


@pytest.mark.parametrize(
    ("number", "digest"),
    [
        (0x0, 0x63852AFC),
        (0x1, 0x53075D44),
        (0x2, 0xC61FA2F4),
        (0x3, 0xA33B57B3),
        (0x1_0000_0000, 0x3AD85688),
        (0x1_0010_0001, 0x7A11D959),
        (0xFFF_FFFF_423F, 0x9502AFBA),
    ],
)
def test_the_hash_of_a_packed_namespace_is_the_published_one(number: int, digest: int) -> None:
    assert murmur3_32(number.to_bytes(8, "little")) == digest


@pytest.mark.parametrize(
    ("data", "seed", "digest"),
    [
        # Vectors that every implementation of the algorithm repeats.
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"\x21\x43\x65", 0, 0x7E4A8634),
        (b"\x21\x43", 0, 0xA0F7B07A),
        (b"\x21", 0, 0x72661CF4),
        (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    ],
)
def test_tails_and_seeds_hash_as_they_do_elsewhere(data: bytes, seed: int, digest: int) -> None:
    assert murmur3_32(data, seed) == digest


@given(st.binary(max_size=64), st.integers(0, U32_MAX))
def test_a_hash_is_a_u32(data: bytes, seed: int) -> None:
    assert 0 <= murmur3_32(data, seed) <= U32_MAX
