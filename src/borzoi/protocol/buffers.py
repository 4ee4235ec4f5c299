"""Reading and writing the primitive fields of the wire: little-endian, bounds-checked.

::

    u8 u16 u32 u64 u128   unsigned integers          f32 f64   IEEE 754
    bool                  u8; written as 0 or 1, read as "not 0"
    str8                  u8 length, then that many bytes of UTF-8
    str32                 u32 length, then that many bytes of UTF-8
    name                  str8 that is not empty
    identifier            u8 kind, u8 length, value: kind 1 = u32 (length 4), kind 2 = a name

A field that is cut off, text that is not UTF-8 and an unknown kind are `InvalidCommand`; an empty
name and a numeric identifier that does not have four bytes are `InvalidFormat`.
Nothing is allocated for a length before the bytes it speaks of are known to be there.
"""

import builtins
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from borzoi.model.errors import InvalidCommand, InvalidFormat, InvalidIdentifier, InvalidNumber
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import NAME_BYTES_MAX, U32_MAX, U128_MAX

#: What a payload may arrive in; bytes are the fastest to read fields from.
Buffer: TypeAlias = builtins.bytes | bytearray | memoryview

T = TypeVar("T")

NUMERIC: Final = 1
NAMED: Final = 2

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_U128: Final = struct.Struct("<16s")
_F32: Final = struct.Struct("<f")
_F64: Final = struct.Struct("<d")
_NUMERIC_IDENTIFIER: Final = struct.Struct("<BBI")

_unpack_u16 = _U16.unpack_from
_unpack_u32 = _U32.unpack_from
_unpack_u64 = _U64.unpack_from


class Reader:
    """Takes fields off the front of a payload."""

    __slots__ = ("_buffer", "_end", "_position")

    def __init__(self, payload: Buffer) -> None:
        self._buffer = payload
        self._position = 0
        self._end = len(payload)

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._position

    def remaining(self) -> int:
        """How many bytes have not been read."""
        return self._end - self._position

    def _cut_off(self) -> InvalidCommand:
        return InvalidCommand(
            f"the payload of {self._end} bytes ends inside the field at byte {self._position}"
        )

    def u8(self) -> int:
        position = self._position
        if position >= self._end:
            raise self._cut_off()
        self._position = position + 1
        return self._buffer[position]

    def u16(self) -> int:
        try:
            value: int = _unpack_u16(self._buffer, self._position)[0]
        except struct.error:
            raise self._cut_off() from None
        self._position += 2
        return value

    def u32(self) -> int:
        try:
            value: int = _unpack_u32(self._buffer, self._position)[0]
        except struct.error:
            raise self._cut_off() from None
        self._position += 4
        return value

    def u64(self) -> int:
        try:
            value: int = _unpack_u64(self._buffer, self._position)[0]
        except struct.error:
            raise self._cut_off() from None
        self._position += 8
        return value

    def u128(self) -> int:
        return int.from_bytes(self.bytes(16), "little")

    def f32(self) -> float:
        value: float = self.unpack(_F32)[0]
        return value

    def f64(self) -> float:
        value: float = self.unpack(_F64)[0]
        return value

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed size at once."""
        try:
            values = fields.unpack_from(self._buffer, self._position)
        except struct.error:
            raise self._cut_off() from None
        self._position += fields.size
        return values

    def bool(self) -> builtins.bool:
        return self.u8() != 0

    def view(self, size: int) -> Buffer:
        """The next bytes in the type they arrived in; the cheapest way to look at them."""
        start = self._position
        stop = start + size
        if stop > self._end:
            raise self._cut_off()
        self._position = stop
        return self._buffer[start:stop]

    def bytes(self, size: int) -> builtins.bytes:
        return builtins.bytes(self.view(size))

    def rest(self) -> memoryview:
        """Everything that is left, as a view that copies nothing."""
        start, self._position = self._position, self._end
        return memoryview(self._buffer)[start:]

    def all_of(self, decode: "Callable[[Reader], T]") -> tuple[T, ...]:
        """One value after another until nothing is left."""
        values: list[T] = []
        while self.remaining():
            values.append(decode(self))
        return tuple(values)

    def text(self, size: int) -> str:
        """The next bytes as UTF-8."""
        try:
            return str(self.view(size), "utf-8")
        except UnicodeDecodeError:
            raise InvalidCommand(f"the text before byte {self._position} is not UTF-8") from None

    def str8(self) -> str:
        return self.text(self.u8())

    def str32(self) -> str:
        return self.text(self.u32())

    def name(self) -> str:
        size = self.u8()
        if not size:
            raise InvalidFormat(f"the name at byte {self._position - 1} is empty")
        return self.text(size)

    def identifier(self) -> Identifier:
        # Written out instead of built from u8 and text: every request has one to three of these.
        start = self._position + 2
        if start > self._end:
            raise self._cut_off()
        buffer = self._buffer
        kind = buffer[start - 2]
        size = buffer[start - 1]
        if kind == NUMERIC:
            if size != 4:
                raise InvalidFormat(f"a numeric identifier has 4 bytes, not {size}")
            try:
                number: int = _unpack_u32(buffer, start)[0]
            except struct.error:
                raise self._cut_off() from None
            self._position = start + 4
            return number
        if kind != NAMED:
            raise InvalidCommand(f"there is no identifier of kind {kind}")
        if not size:
            raise InvalidFormat("an identifier is an empty name")
        stop = start + size
        if stop > self._end:
            raise self._cut_off()
        try:
            name = str(buffer[start:stop], "utf-8")
        except UnicodeDecodeError:
            raise InvalidCommand(f"the identifier before byte {stop} is not UTF-8") from None
        self._position = stop
        return name


class Encodable(Protocol):
    """A value that writes its own fields."""

    def encode(self, out: "Writer") -> None: ...


class Writer:
    """Puts fields at the end of a payload; every method returns the writer itself.

    `all_compressions` says that the reader of the answer knows every compression algorithm;
    the published 0.8 clients do not, see `borzoi.protocol.values.answered_compression`.
    """

    __slots__ = ("_out", "all_compressions")

    def __init__(self, *, all_compressions: builtins.bool = False) -> None:
        self._out = bytearray()
        self.all_compressions = all_compressions

    def __len__(self) -> int:
        return len(self._out)

    def getvalue(self) -> builtins.bytes:
        return builtins.bytes(self._out)

    def pack(self, fields: struct.Struct, *values: int | float | builtins.bytes) -> Self:
        """Several fields of fixed size at once."""
        try:
            self._out += fields.pack(*values)
        except (struct.error, OverflowError) as fault:
            raise InvalidNumber(f"{values} do not fit their fields: {fault}") from None
        return self

    def all_of(self, values: Iterable[Encodable]) -> Self:
        """One value after another, without a count."""
        for value in values:
            value.encode(self)
        return self

    def u8(self, value: int) -> Self:
        if not 0 <= value <= 0xFF:
            raise InvalidNumber(f"{value} does not fit one byte")
        self._out.append(value)
        return self

    def u16(self, value: int) -> Self:
        return self.pack(_U16, value)

    def u32(self, value: int) -> Self:
        return self.pack(_U32, value)

    def u64(self, value: int) -> Self:
        return self.pack(_U64, value)

    def u128(self, value: int) -> Self:
        if not 0 <= value <= U128_MAX:
            raise InvalidNumber(f"{value} does not fit 16 bytes")
        self._out += value.to_bytes(16, "little")
        return self

    def f32(self, value: float) -> Self:
        return self.pack(_F32, value)

    def f64(self, value: float) -> Self:
        return self.pack(_F64, value)

    def bool(self, value: builtins.bool) -> Self:
        self._out.append(1 if value else 0)
        return self

    def bytes(self, value: Buffer) -> Self:
        self._out += value
        return self

    def str8(self, value: str) -> Self:
        encoded = _utf8(value)
        if len(encoded) > NAME_BYTES_MAX:
            raise InvalidFormat(f"a short text has at most {NAME_BYTES_MAX} bytes: {value[:40]!r}…")
        self._out.append(len(encoded))
        self._out += encoded
        return self

    def str32(self, value: str) -> Self:
        encoded = _utf8(value)
        self.u32(len(encoded))
        self._out += encoded
        return self

    def name(self, value: str) -> Self:
        if not value:
            raise InvalidFormat("a name has at least one byte")
        return self.str8(value)

    def identifier(self, value: Identifier) -> Self:
        if isinstance(value, int):
            if not 0 <= value <= U32_MAX:
                raise InvalidIdentifier(f"{value} is not within 0..{U32_MAX}")
            self._out += _NUMERIC_IDENTIFIER.pack(NUMERIC, 4, value)
            return self
        return self.named(_utf8(value))

    def named(self, name: builtins.bytes) -> Self:
        """An identifier of kind 2 from bytes that need not be UTF-8."""
        if not 1 <= len(name) <= NAME_BYTES_MAX:
            raise InvalidIdentifier(f"a name has 1 to {NAME_BYTES_MAX} bytes, not {len(name)}")
        self._out.append(NAMED)
        self._out.append(len(name))
        self._out += name
        return self


def _utf8(text: str) -> builtins.bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise InvalidFormat(f"a text cannot be written as UTF-8: {fault}") from None
