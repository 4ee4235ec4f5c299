"""User headers: typed keys and values after the payload of a message.

::

    bytes        field          of each pair, pair after pair, no count
    1            key kind       1..15, see HeaderKind
    4            key length     u32, 1..255
    length       key
    1            value kind
    4            value length   u32, 1..255
    length       value

Numbers are little-endian and as wide as their kind says, a bool is one byte 0 or 1, a string is
UTF-8. Servers store the bytes unread, so what another client wrote may not fit its kind: reading
the pairs checks the lengths, and only asking for `.value` reads the bytes as what they claim to be.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Self

from borzoi.model.errors import (
    InvalidBatch,
    InvalidHeaderKey,
    InvalidHeaderKind,
    InvalidHeaderValue,
)
from borzoi.model.limits import U64_MAX, U128_MAX, USER_HEADER_BYTES_MAX
from borzoi.model.value import Value


class HeaderKind(IntEnum):
    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


KINDS: Final[Mapping[int, HeaderKind]] = {int(kind): kind for kind in HeaderKind}

# fmt: off
SIGNED: Final = {
    HeaderKind.INT8: 1, HeaderKind.INT16: 2, HeaderKind.INT32: 4, HeaderKind.INT64: 8,
    HeaderKind.INT128: 16,
}
UNSIGNED: Final = {
    HeaderKind.UINT8: 1, HeaderKind.UINT16: 2, HeaderKind.UINT32: 4, HeaderKind.UINT64: 8,
    HeaderKind.UINT128: 16,
}
FLOATS: Final = {HeaderKind.FLOAT32: struct.Struct("<f"), HeaderKind.FLOAT64: struct.Struct("<d")}
WIDTHS: Final = {**SIGNED, **UNSIGNED, HeaderKind.FLOAT32: 4, HeaderKind.FLOAT64: 8}
# fmt: on

#: Kind and length in front of a key or a value.
PREFIX: Final = struct.Struct("<BI")

PlainValue = bytes | str | bool | int | float


class HeaderValue(Value):
    """A key or a value: its kind, and its bytes as they travel."""

    kind: HeaderKind
    data: bytes

    @classmethod
    def of(cls, value: PlainValue, kind: HeaderKind | None = None) -> Self:
        """The value as this kind, or as the one its type suggests.

        >>> HeaderValue.of("v").kind, HeaderValue.of(-5).kind, HeaderValue.of(0.5).kind
        (<HeaderKind.STRING: 2>, <HeaderKind.INT64: 7>, <HeaderKind.FLOAT64: 15>)
        """
        chosen = _suggested_kind(value) if kind is None else kind
        return cls(chosen, _to_bytes(value, chosen))

    @property
    def value(self) -> PlainValue:
        """What the bytes say, read as their kind; InvalidHeaderValue when they do not fit it."""
        kind, data = self.kind, self.data
        if kind is HeaderKind.RAW:
            return data
        if kind is HeaderKind.STRING:
            try:
                return data.decode()
            except UnicodeDecodeError as error:
                raise InvalidHeaderValue("a string in the user headers is not UTF-8") from error
        if kind is HeaderKind.BOOL:
            if data not in (b"\0", b"\1"):
                raise InvalidHeaderValue("a bool in the user headers is neither 0 nor 1")
            return data == b"\1"
        if len(data) != WIDTHS[kind]:
            raise InvalidHeaderValue(f"{len(data)} bytes in the user headers are not a {kind.name}")
        if kind in FLOATS:
            return float(FLOATS[kind].unpack(data)[0])
        return int.from_bytes(data, "little", signed=kind in SIGNED)


#: Keys are made like values, of any kind; nearly always they are strings.
HeaderKey = HeaderValue
UserHeaders = Mapping[HeaderKey, HeaderValue]


def user_headers(headers: Mapping[str, PlainValue]) -> dict[HeaderKey, HeaderValue]:
    """The usual case: keys are strings, values have the kind their type suggests."""
    return {HeaderValue.of(key): HeaderValue.of(value) for key, value in headers.items()}


def encode_user_headers(headers: UserHeaders) -> bytes:
    """In the order published clients write them: by kind and bytes of the key."""
    out = bytearray()
    for key, value in sorted(headers.items(), key=lambda pair: (pair[0].kind, pair[0].data)):
        for part, fault in ((key, InvalidHeaderKey), (value, InvalidHeaderValue)):
            if not 1 <= len(part.data) <= USER_HEADER_BYTES_MAX:
                raise fault(f"{len(part.data)} bytes in a user header; 1 to 255 are allowed")
            out += PREFIX.pack(part.kind, len(part.data)) + part.data
    return bytes(out)


def decode_user_headers(data: bytes | bytearray | memoryview) -> dict[HeaderKey, HeaderValue]:
    """The pairs in the order they were written; of two with the same key the later counts."""
    view = memoryview(data)
    headers: dict[HeaderKey, HeaderValue] = {}
    position = 0
    while position < len(view):
        key, position = _part(view, position, InvalidHeaderKey)
        value, position = _part(view, position, InvalidHeaderValue)
        headers[key] = value
    return headers


def _part(view: memoryview, position: int, fault: type[InvalidBatch]) -> tuple[HeaderValue, int]:
    start = position + PREFIX.size
    if start > len(view):
        raise fault("the user headers end inside a pair")
    code, length = PREFIX.unpack_from(view, position)
    kind = KINDS.get(code)
    if kind is None:
        raise InvalidHeaderKind(f"no kind of user header has the number {code}")
    end = start + length
    if not 1 <= length <= USER_HEADER_BYTES_MAX:
        raise fault(f"{length} bytes in a user header; 1 to 255 are allowed")
    if end > len(view):
        raise fault("the user headers end inside a pair")
    return HeaderValue(kind, bytes(view[start:end])), end


def _suggested_kind(value: PlainValue) -> HeaderKind:
    match value:
        case bool():
            return HeaderKind.BOOL
        case bytes():
            return HeaderKind.RAW
        case str():
            return HeaderKind.STRING
        case float():
            return HeaderKind.FLOAT64
        case int():
            # The narrowest of the kinds that programs compute with; 8 to 32 bits must be asked for.
            if -(2**63) <= value < 2**63:
                return HeaderKind.INT64
            if 0 <= value <= U64_MAX:
                return HeaderKind.UINT64
            return HeaderKind.UINT128 if 2**127 <= value <= U128_MAX else HeaderKind.INT128
    raise InvalidHeaderValue(f"{type(value).__name__} cannot be a user header")


def _to_bytes(value: PlainValue, kind: HeaderKind) -> bytes:
    try:
        if kind is HeaderKind.RAW and isinstance(value, bytes):
            return value
        if kind is HeaderKind.STRING and isinstance(value, str):
            return value.encode()
        if kind is HeaderKind.BOOL and isinstance(value, bool):
            return b"\1" if value else b"\0"
        if kind in FLOATS and isinstance(value, int | float):
            return FLOATS[kind].pack(value)
        if kind in SIGNED and isinstance(value, int):
            return value.to_bytes(SIGNED[kind], "little", signed=True)
        if kind in UNSIGNED and isinstance(value, int):
            return value.to_bytes(UNSIGNED[kind], "little")
    except (OverflowError, UnicodeEncodeError, struct.error) as error:
        # Without the value itself: a number can have too many digits to be printed.
        raise InvalidHeaderValue(f"the value does not fit {kind.name.lower()}") from error
    raise InvalidHeaderValue(f"a {type(value).__name__} is not of kind {kind.name.lower()}")
