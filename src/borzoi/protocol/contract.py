"""What every request and every response can do."""

from typing import ClassVar, Protocol, Self

from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code


class Response(Protocol):
    """A value that a server can answer with."""

    def encode(self, out: Writer) -> None: ...

    @classmethod
    def decode(cls, reader: Reader) -> Self: ...


class Request(Protocol):
    """A value that a client can ask a server for; `RESPONSE` is None when the answer is empty."""

    CODE: ClassVar[Code]
    RESPONSE: ClassVar[type[Response] | None]

    def encode(self, out: Writer) -> None: ...

    @classmethod
    def decode(cls, reader: Reader) -> Self: ...


class RequestValue(Value):
    """The base of the requests: what a subclass does not say is that its answer is empty."""

    CODE: ClassVar[Code]
    RESPONSE: ClassVar[type[Response] | None] = None


class Listing(Value):
    """A response of one field: items one after another, without their count."""

    ITEM: ClassVar[type[Response]]

    def encode(self, out: Writer) -> None:
        for name in self.__struct_fields__:
            out.all_of(getattr(self, name))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*[reader.all_of(cls.ITEM.decode) for _ in cls.__struct_fields__])


def encode_payload(message: Request | Response, *, all_compressions: bool = False) -> bytes:
    """The payload of a request or response, without its frame."""
    out = Writer(all_compressions=all_compressions)
    message.encode(out)
    return out.getvalue()
