"""Requests that say nothing but what they are about.

::

    NoFields    no fields
    OfName      name
    OfStream    identifier stream_id
    OfTopic     identifier stream_id, identifier topic_id
    OfGroup     identifier stream_id, identifier topic_id, identifier group_id
    OfUser      identifier user_id
"""

from typing import Self

from borzoi.model.identifiers import Identifier
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.contract import RequestValue


class NoFields(RequestValue):
    def encode(self, out: Writer) -> None:
        """Nothing to write."""

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls()


class OfName(RequestValue):
    name: str

    def encode(self, out: Writer) -> None:
        out.name(self.name)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.name())


class _Identifiers(RequestValue):
    """Every field is an identifier; they are written in their order."""

    def encode(self, out: Writer) -> None:
        for name in self.__struct_fields__:
            out.identifier(getattr(self, name))

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*[reader.identifier() for _ in cls.__struct_fields__])


class OfStream(_Identifiers):
    stream_id: Identifier


class OfTopic(_Identifiers):
    stream_id: Identifier
    topic_id: Identifier


class OfGroup(_Identifiers):
    stream_id: Identifier
    topic_id: Identifier
    group_id: Identifier


class OfUser(_Identifiers):
    user_id: Identifier
