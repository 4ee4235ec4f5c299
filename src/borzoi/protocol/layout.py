"""Messages whose fields follow each other on the wire in the order of the class.

`Fields` is for fields of any kind: ``LAYOUT = (IDENTIFIER, NAME)``. `Packed` is for numbers alone,
which one call packs and unpacks, `Named` for numbers and a name.
"""

import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, Self

from msgspec.structs import astuple

from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer


class FieldKind(NamedTuple):
    """How a field of one kind is read, and how it is written."""

    read: Callable[[Reader], Any]
    write: Callable[[Writer, Any], object]


U32: Final = FieldKind(Reader.u32, Writer.u32)
U64: Final = FieldKind(Reader.u64, Writer.u64)
BOOL: Final = FieldKind(Reader.bool, Writer.bool)
STR8: Final = FieldKind(Reader.str8, Writer.str8)
NAME: Final = FieldKind(Reader.name, Writer.name)
IDENTIFIER: Final = FieldKind(Reader.identifier, Writer.identifier)


class Fields(Value):
    """`LAYOUT` has the kind of each field."""

    LAYOUT: ClassVar[tuple[FieldKind, ...]] = ()

    def encode(self, out: Writer) -> None:
        for kind, value in zip(self.LAYOUT, astuple(self), strict=True):
            kind.write(out, value)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*[kind.read(reader) for kind in cls.LAYOUT])


class Packed(Value):
    """`STRUCT` packs all fields."""

    STRUCT: ClassVar[struct.Struct]

    def encode(self, out: Writer) -> None:
        out.pack(self.STRUCT, *astuple(self))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*reader.unpack(cls.STRUCT))


class Named(Value):
    """`STRUCT` packs all fields but the last, which is a name."""

    STRUCT: ClassVar[struct.Struct]

    def encode(self, out: Writer) -> None:
        *numbers, name = astuple(self)
        out.pack(self.STRUCT, *numbers).name(name)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*reader.unpack(cls.STRUCT), reader.name())
