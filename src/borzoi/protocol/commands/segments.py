"""Segments of a partition.

::

    DeleteSegments  identifier stream_id, identifier topic_id, u32 partition_id, u32 segments_count
"""

from borzoi.model.identifiers import Identifier
from borzoi.protocol.contract import Request
from borzoi.protocol.layout import IDENTIFIER, U32


class DeleteSegments(Request):
    """Removes up to that many of the oldest closed segments."""

    LAYOUT = (IDENTIFIER, IDENTIFIER, U32, U32)
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int
    segments_count: int
