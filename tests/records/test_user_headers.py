"""Typed keys and values behind a payload."""

import struct
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.record_strategies import typed_values
from tests.support.record_strategies import user_headers as drawn_headers

from borzoi.model.errors import (
    BorzoiError,
    InvalidHeaderKey,
    InvalidHeaderKind,
    InvalidHeaderValue,
)
from borzoi.records.user_headers import (
    WIDTHS,
    HeaderKind,
    HeaderValue,
    PlainValue,
    decode_user_headers,
    encode_user_headers,
    user_headers,
)

# As a published client wrote them: "k" = "v", "n" = -5 as a 32-bit number.
PUBLISHED = bytes.fromhex("02010000006b02010000007602010000006e0604000000fbffffff")


def test_published_bytes_are_read_and_written() -> None:
    headers = {
        HeaderValue.of("k"): HeaderValue.of("v"),
        HeaderValue.of("n"): HeaderValue.of(-5, HeaderKind.INT32),
    }
    assert decode_user_headers(PUBLISHED) == headers
    assert encode_user_headers(headers) == PUBLISHED


def test_there_are_fifteen_kinds_numbered_from_one() -> None:
    assert [int(kind) for kind in HeaderKind] == list(range(1, 16))


@given(typed_values())
def test_a_value_of_every_kind_comes_back(typed: tuple[HeaderKind, PlainValue]) -> None:
    kind, plain = typed
    value = HeaderValue.of(plain, kind)
    assert value.kind is kind
    assert value.value == plain
    assert type(value.value) is type(plain)
    assert kind not in WIDTHS or len(value.data) == WIDTHS[kind]


@given(drawn_headers)
def test_headers_survive_encoding(headers: dict[HeaderValue, HeaderValue]) -> None:
    encoded = encode_user_headers(headers)
    assert decode_user_headers(encoded) == headers
    assert encode_user_headers(decode_user_headers(encoded)) == encoded


@given(drawn_headers, st.randoms())
def test_the_order_of_a_mapping_does_not_show(
    headers: dict[HeaderValue, HeaderValue], shuffle: Random
) -> None:
    pairs = list(headers.items())
    shuffle.shuffle(pairs)
    assert encode_user_headers(dict(pairs)) == encode_user_headers(headers)


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        (b"raw", HeaderKind.RAW),
        ("text", HeaderKind.STRING),
        (True, HeaderKind.BOOL),
        (0, HeaderKind.INT64),
        (-(2**63), HeaderKind.INT64),
        (2**63 - 1, HeaderKind.INT64),
        (2**63, HeaderKind.UINT64),
        (2**64 - 1, HeaderKind.UINT64),
        (2**64, HeaderKind.INT128),
        (-(2**63) - 1, HeaderKind.INT128),
        (2**127 - 1, HeaderKind.INT128),
        (2**127, HeaderKind.UINT128),
        (2**128 - 1, HeaderKind.UINT128),
        (0.5, HeaderKind.FLOAT64),
    ],
)
def test_the_type_of_a_value_suggests_its_kind(plain: PlainValue, kind: HeaderKind) -> None:
    value = HeaderValue.of(plain)
    assert (value.kind, value.value) == (kind, plain)


def test_the_usual_headers_are_written_as_plain_python() -> None:
    headers = user_headers({"region": "eu", "retries": 3})
    read = decode_user_headers(encode_user_headers(headers))
    assert {key.value: value.value for key, value in read.items()} == {"region": "eu", "retries": 3}


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        (2**128, None),
        (-(2**127) - 1, None),
        ([1], None),
        (None, None),
        (128, HeaderKind.INT8),
        (-1, HeaderKind.UINT8),
        (256, HeaderKind.UINT8),
        (1e300, HeaderKind.FLOAT32),
        pytest.param(10**5000, HeaderKind.FLOAT64, id="too many digits"),
        ("\ud800", HeaderKind.STRING),
        ("text", HeaderKind.RAW),
        (b"raw", HeaderKind.STRING),
        (1, HeaderKind.BOOL),
        ("1", HeaderKind.FLOAT32),
        (1.0, HeaderKind.INT64),
        (1.0, HeaderKind.UINT64),
    ],
)
def test_a_value_that_does_not_fit_is_refused(plain: PlainValue, kind: HeaderKind | None) -> None:
    with pytest.raises(InvalidHeaderValue):
        HeaderValue.of(plain, kind)


def test_a_number_may_be_asked_for_as_a_float() -> None:
    assert HeaderValue.of(3, HeaderKind.FLOAT64).value == 3.0


@pytest.mark.parametrize("data", [b"", bytes(256)])
def test_keys_and_values_have_1_to_255_bytes(data: bytes) -> None:
    good, bad = HeaderValue.of("good"), HeaderValue(HeaderKind.RAW, data)
    with pytest.raises(InvalidHeaderKey):
        encode_user_headers({bad: good})
    with pytest.raises(InvalidHeaderValue):
        encode_user_headers({good: bad})


@pytest.mark.parametrize("kind", [kind for kind in HeaderKind if kind is not HeaderKind.RAW])
def test_bytes_that_do_not_fit_their_kind_are_refused_when_read(kind: HeaderKind) -> None:
    foreign = HeaderValue(kind, b"\xff" * 3)
    headers = {HeaderValue.of("k"): foreign}
    assert decode_user_headers(encode_user_headers(headers)) == headers
    with pytest.raises(InvalidHeaderValue):
        _ = foreign.value


@pytest.mark.parametrize(
    ("damaged", "fault"),
    [
        (PUBLISHED[:4], InvalidHeaderKey),
        (PUBLISHED[:5], InvalidHeaderKey),
        (PUBLISHED[:6], InvalidHeaderValue),
        (PUBLISHED[:11], InvalidHeaderValue),
        (b"\0" + PUBLISHED[1:], InvalidHeaderKind),
        (b"\x10" + PUBLISHED[1:], InvalidHeaderKind),
        (PUBLISHED[:6] + b"\0" + PUBLISHED[7:], InvalidHeaderKind),
        (b"\x02" + bytes(4), InvalidHeaderKey),
        (struct.pack("<BI", 1, 256) + bytes(256), InvalidHeaderKey),
        (PUBLISHED[:6] + struct.pack("<BI", 1, 0), InvalidHeaderValue),
    ],
)
def test_damage_is_called_by_its_name(damaged: bytes, fault: type[BorzoiError]) -> None:
    with pytest.raises(fault):
        decode_user_headers(damaged)


@given(st.binary(max_size=100))
@example(PUBLISHED[:-1])
def test_garbage_raises_ours(garbage: bytes) -> None:
    try:
        for part in (part for pair in decode_user_headers(garbage).items() for part in pair):
            _ = part.value
    except BorzoiError:
        pass


def test_of_two_pairs_with_one_key_the_later_counts() -> None:
    first, second = (encode_user_headers({HeaderValue.of("k"): HeaderValue.of(n)}) for n in (1, 2))
    assert decode_user_headers(first + second) == {HeaderValue.of("k"): HeaderValue.of(2)}
