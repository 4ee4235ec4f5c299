"""JSON that mirrors a response field by field."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import msgspec

from borzoi.model.units import format_bytes, parse_bytes
from borzoi.model.value import like
from borzoi.protocol.rest.words import Words


def _same(value: Any) -> Any:
    return value


class Converted(NamedTuple):
    """A field whose attribute of the response has another name or another form."""

    field: str
    attribute: str
    write: Callable[[Any], object] = _same
    read: Callable[[Any], object] = _same


def size(field: str, attribute: str) -> Converted:
    """A number of bytes as a text."""
    return Converted(field, attribute, format_bytes, parse_bytes)


def word(field: str, attribute: str, words: Words[Any]) -> Converted:
    """A member of an enum as its word."""
    return Converted(field, attribute, words.word, words.member)


def items(field: str, document: Any) -> Converted:
    """The values inside a response."""
    return Converted(
        field,
        field,
        lambda values: [document.of(value) for value in values],
        lambda documents: tuple(each.response() for each in documents),
    )


class Document(msgspec.Struct):
    """The JSON of the response that `mirrors` names, with the attributes of that as its fields.

    What the response works out itself, such as how many items it has, is written but not read.
    """

    MIRRORED: ClassVar[type[Any]]
    CONVERTED: ClassVar[tuple[Converted, ...]] = ()

    @classmethod
    def of(cls, response: Any) -> Self:
        converted = {
            field: write(getattr(response, attribute))
            for field, attribute, write, _ in cls.CONVERTED
        }
        return like(cls, response, **converted)

    def response(self) -> Any:
        values = msgspec.structs.asdict(self)
        for field, attribute, _, read in self.CONVERTED:
            values[attribute] = read(values[field])
        return self.MIRRORED(**{name: values[name] for name in self.MIRRORED.__struct_fields__})


D = TypeVar("D", bound=Document)


def mirrors(response: type, *converted: Converted) -> Callable[[type[D]], type[D]]:
    """Say what a document is the JSON of; the conversions add to those of its base."""

    def declare(document: type[D]) -> type[D]:
        document.MIRRORED = response
        document.CONVERTED = (*document.CONVERTED, *converted)
        return document

    return declare
