"""What a handler gives back: bytes, or a head and the ranges of files that follow it.

Stored messages are never copied into a reply; the listener that owns the socket sends the ranges.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from borzoi.protocol.framing import RESPONSE_PREFIX
from borzoi.storage.reading import FileRange

#: The answer to a command that has nothing to say: status 0, no payload.
DONE = RESPONSE_PREFIX.pack(0, 0)


class RangesReply(msgspec.Struct):
    """A response whose payload ends in stored bytes."""

    head: bytes
    ranges: Sequence[FileRange]
    #: Messages that are acknowledged but not in a file yet (only at level `buffered`).
    tail: Sequence[memoryview]


Reply: TypeAlias = bytes | RangesReply


def ok(payload: bytes) -> bytes:
    """A successful response."""
    return RESPONSE_PREFIX.pack(0, len(payload)) + payload


def failed(status: int) -> bytes:
    """An error response: it never has a payload, or clients would lose the frame boundary."""
    return RESPONSE_PREFIX.pack(status, 0)
