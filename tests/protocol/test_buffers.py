"""Fields one by one: what is written is read, what is cut off or out of range is refused."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_strategies import f32, identifiers, names, short_texts, texts

from borzoi.model.errors import (
    BorzoiError,
    InvalidCommand,
    InvalidFormat,
    InvalidIdentifier,
    InvalidNumber,
)
from borzoi.protocol.buffers import Reader, Writer

U128 = st.integers(0, 2**128 - 1)

FIELDS = [
    ("u8", st.integers(0, 2**8 - 1)),
    ("u16", st.integers(0, 2**16 - 1)),
    ("u32", st.integers(0, 2**32 - 1)),
    ("u64", st.integers(0, 2**64 - 1)),
    ("u128", U128),
    ("f32", f32),
    ("f64", st.floats(allow_nan=False)),
    ("bool", st.booleans()),
    ("str8", short_texts),
    ("str32", texts),
    ("name", names),
    ("identifier", identifiers),
]


@pytest.mark.parametrize(("field", "values"), FIELDS, ids=[field for field, _ in FIELDS])
def test_what_is_written_is_read(field, values):
    @given(values, st.sampled_from([bytes, bytearray, memoryview]))
    def check(value, buffer):
        out = Writer()
        assert getattr(out, field)(value) is out
        reader = Reader(buffer(out.getvalue()))
        assert getattr(reader, field)() == value
        assert reader.remaining() == 0
        assert reader.position == len(out)

    check()


@pytest.mark.parametrize(("field", "values"), FIELDS, ids=[field for field, _ in FIELDS])
def test_a_field_that_is_cut_off_is_refused_and_not_consumed_twice(field, values):
    @given(values)
    def check(value):
        written = getattr(Writer(), field)(value).getvalue()
        for size in range(len(written)):
            with pytest.raises(InvalidCommand, match="ends inside the field"):
                getattr(Reader(written[:size]), field)()

    check()


@given(st.lists(st.tuples(st.sampled_from(["u8", "u16", "u32", "u64"]), st.integers(0, 255))))
def test_fields_follow_each_other_without_padding(fields):
    out = Writer()
    for field, value in fields:
        getattr(out, field)(value)
    assert len(out) == sum(int(field[1:]) // 8 for field, _ in fields)
    reader = Reader(out.getvalue())
    assert [getattr(reader, field)() for field, _ in fields] == [value for _, value in fields]


def test_numbers_are_little_endian():
    out = Writer().u8(1).u16(2).u32(3).u64(4).u128(5).f32(1.5).f64(-2.0)
    assert out.getvalue() == (
        b"\x01\x02\x00\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05"
        + bytes(15)
        + struct.pack("<fd", 1.5, -2.0)
    )


def test_an_identifier_is_a_number_or_a_name():
    assert Writer().identifier(7).getvalue() == b"\x01\x04\x07\x00\x00\x00"
    assert Writer().identifier("7").getvalue() == b"\x02\x017"
    assert Reader(b"\x02\x017").identifier() == "7"


@pytest.mark.parametrize(
    ("wire", "fault"),
    [
        (b"\x03\x04\x00\x00\x00\x00", InvalidCommand),
        (b"\x00\x04\x00\x00\x00\x00", InvalidCommand),
        (b"\x01\x03\x00\x00\x00", InvalidFormat),
        (b"\x01\x08\x00\x00\x00\x00\x00\x00\x00\x00", InvalidFormat),
        (b"\x01\x00", InvalidFormat),
        (b"\x02\x00", InvalidFormat),
        (b"\x01\x04\x00\x00\x00", InvalidCommand),
        (b"\x02\x05ab", InvalidCommand),
        (b"\x02\x02\xff\xfe", InvalidCommand),
        (b"\x02", InvalidCommand),
        (b"", InvalidCommand),
    ],
)
def test_a_wrong_identifier_is_refused(wire, fault):
    with pytest.raises(fault) as refused:
        Reader(wire).identifier()
    assert type(refused.value) is fault


def test_an_empty_name_is_a_fault_of_format():
    with pytest.raises(InvalidFormat):
        Reader(b"\x00").name()
    assert Reader(b"\x00").str8() == ""


@pytest.mark.parametrize("field", ["str8", "name"])
def test_text_that_is_not_utf8_is_refused(field):
    with pytest.raises(InvalidCommand, match="UTF-8"):
        getattr(Reader(b"\x02\xff\xfe"), field)()


def test_an_announced_length_takes_no_memory():
    with pytest.raises(InvalidCommand):
        Reader(b"\xff\xff\xff\xff").str32()


def test_any_byte_but_zero_is_true():
    assert [Reader(bytes([byte])).bool() for byte in range(256)] == [False] + [True] * 255


def test_the_rest_is_a_view_of_what_was_given():
    payload = bytearray(b"abcdef")
    reader = Reader(payload)
    reader.bytes(2)
    rest = reader.rest()
    rest[0] = ord("X")
    assert payload == b"abXdef"
    assert reader.remaining() == 0
    assert len(Reader(b"").rest()) == 0


def test_bytes_are_bytes_whatever_they_were_read_from():
    for payload in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        taken = Reader(payload).bytes(2)
        assert type(taken) is bytes
        assert taken == b"ab"
    with pytest.raises(InvalidCommand):
        Reader(b"abc").bytes(4)


def test_several_fields_can_be_read_and_written_at_once():
    fields = struct.Struct("<BI")
    assert Writer().pack(fields, 1, 2).getvalue() == b"\x01\x02\x00\x00\x00"
    assert Reader(b"\x01\x02\x00\x00\x00").unpack(fields) == (1, 2)
    with pytest.raises(InvalidCommand):
        Reader(b"\x01\x02\x00\x00").unpack(fields)


@pytest.mark.parametrize("size", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("beyond", [lambda size: 2**size, lambda size: -1])
def test_a_number_out_of_range_is_not_written(size, beyond):
    out = Writer()
    with pytest.raises(InvalidNumber):
        getattr(out, f"u{size}")(beyond(size))
    assert out.getvalue() == b""


def test_a_float_too_large_for_its_field_is_not_written():
    with pytest.raises(InvalidNumber):
        Writer().f32(1e300)
    assert math.isinf(Reader(Writer().f32(math.inf).getvalue()).f32())


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("name", "", InvalidFormat),
        ("name", "x" * 256, InvalidFormat),
        ("str8", "ü" * 128, InvalidFormat),
        ("str8", "\ud800", InvalidFormat),
        ("str32", "\udcff", InvalidFormat),
        ("identifier", "", InvalidIdentifier),
        ("identifier", "x" * 256, InvalidIdentifier),
        ("identifier", "\udcff", InvalidFormat),
        ("identifier", -1, InvalidIdentifier),
        ("identifier", 2**32, InvalidIdentifier),
        ("named", b"", InvalidIdentifier),
        ("named", bytes(256), InvalidIdentifier),
    ],
)
def test_what_no_wire_can_carry_is_not_written(field, value, fault):
    with pytest.raises(fault):
        getattr(Writer(), field)(value)


@given(st.binary(max_size=40), st.lists(st.sampled_from([field for field, _ in FIELDS])))
def test_garbage_is_read_or_refused_with_an_error_of_ours(garbage, fields):
    reader = Reader(garbage)
    for field in fields:
        try:
            getattr(reader, field)()
        except BorzoiError:
            break
    assert 0 <= reader.remaining() <= len(garbage)


def test_values_are_read_until_nothing_is_left() -> None:
    assert Reader(bytes([1, 2, 3])).all_of(Reader.u8) == (1, 2, 3)
    assert Reader(b"").all_of(Reader.u8) == ()
    with pytest.raises(InvalidCommand):
        Reader(bytes(3)).all_of(Reader.u16)
