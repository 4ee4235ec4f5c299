"""Segments of a partition.

::

    DeleteSegments  identifier stream_id, identifier topic_id, u32 partition_id, u32 segments_count
"""

from typing import Self

from borzoi.model.identifiers import Identifier
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import RequestValue


class DeleteSegments(RequestValue):
    """Removes up to that many of the oldest closed segments."""

    CODE = Code.DELETE_SEGMENTS
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int
    segments_count: int

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id)
        out.u32(self.partition_id).u32(self.segments_count)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier(), reader.u32(), reader.u32())
