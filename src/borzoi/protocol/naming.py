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


class OfStream(RequestValue):
    stream_id: Identifier

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier())


class OfTopic(RequestValue):
    stream_id: Identifier
    topic_id: Identifier

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier())


class OfGroup(RequestValue):
    stream_id: Identifier
    topic_id: Identifier
    group_id: Identifier

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id).identifier(self.group_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier(), reader.identifier())


class OfUser(RequestValue):
    user_id: Identifier

    def encode(self, out: Writer) -> None:
        out.identifier(self.user_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier())
