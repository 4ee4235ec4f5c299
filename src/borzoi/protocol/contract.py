"""What every request and every response can do."""

from typing import Any, ClassVar, Final, Protocol, Self

from borzoi.model.errors import InvalidFormat
from borzoi.model.value import Value, like
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.layout import Fields


class Response(Protocol):
    """A value that a server can answer with."""

    def encode(self, out: Writer) -> None: ...

    @classmethod
    def decode(cls, reader: Reader) -> Self: ...


_CODES: Final = {code.name.replace("_", "").lower(): code for code in Code}


class Request(Fields):
    """A value that a client can ask a server for; `RESPONSE` is None when the answer is empty.

    The name of a request is that of its code, without the underscores.
    """

    CODE: ClassVar[Code]
    RESPONSE: ClassVar[type[Response] | None] = None

    def __init_subclass__(cls) -> None:
        code = _CODES.get(cls.__name__.lower())
        if code is not None:
            cls.CODE = code


class Listing(Value):
    """A response of one field: items one after another, without their count."""

    ITEM: ClassVar[type[Response]]

    def encode(self, out: Writer) -> None:
        for name in self.__struct_fields__:
            out.all_of(getattr(self, name))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*[reader.all_of(cls.ITEM.decode) for _ in cls.__struct_fields__])


class Details(Value):
    """A response that is another one, `INFO`, with the items that it counts behind it.

    The last field has the items; the others are fields of `INFO`, which also has their count.
    """

    INFO: ClassVar[type[Any]]
    ITEM: ClassVar[type[Response]]

    def encode(self, out: Writer) -> None:
        like(self.INFO, self).encode(out)
        out.all_of(getattr(self, self.__struct_fields__[-1]))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        info, items = cls.INFO.decode(reader), reader.all_of(cls.ITEM.decode)
        name = cls.__struct_fields__[-1]
        count = getattr(info, f"{name}_count")
        if len(items) != count:
            raise InvalidFormat(f"{len(items)} {name} follow where {count} are announced")
        return like(cls, info, **{name: items})


def encode_payload(message: Request | Response, *, all_compressions: bool = False) -> bytes:
    """The payload of a request or response, without its frame."""
    out = Writer(all_compressions=all_compressions)
    message.encode(out)
    return out.getvalue()
