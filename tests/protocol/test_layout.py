"""A layout says all that a message needs to go both ways."""

import struct
from typing import Any

import pytest

from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.layout import BOOL, NAME, STR8, U32, U64, Fields, Named, Packed


class Several(Fields):
    LAYOUT = (U32, NAME, U64, BOOL, STR8)
    number: int
    name: str
    size: int
    is_open: bool
    text: str = ""


class Numbers(Packed):
    STRUCT = struct.Struct("<BHf")
    small: int
    large: int
    ratio: float


class NumberAndName(Named):
    STRUCT = struct.Struct("<H")
    number: int
    name: str


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (Several(1, "ab", 2, True), "01000000026162" + "0200000000000000" + "0100"),
        (Numbers(1, 2, 0.5), "0102000000003f"),
        (NumberAndName(1, "ab"), "0100026162"),
    ],
)
def test_fields_follow_each_other_in_the_order_of_the_class(value: Any, recorded: str) -> None:
    payload = encode_payload(value)
    assert payload.hex() == recorded
    assert type(value).decode(Reader(payload)) == value


def test_a_layout_that_forgets_a_field_is_not_written() -> None:
    class Forgetful(Fields):
        LAYOUT = (U32,)
        first: int
        second: int

    with pytest.raises(ValueError, match="longer"):
        Forgetful(1, 2).encode(Writer())
