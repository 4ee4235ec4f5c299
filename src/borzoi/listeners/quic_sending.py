"""Sends the answers of one QUIC connection as the client reads them, a slice at a time.

The library buffers everything until it is sent, so it gets one slice at a time: a client that polls
gigabytes and reads nothing costs one slice.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from qh3.quic.connection import QuicConnection as QuicCore

from borzoi.listeners.binary import RangesReply, Reply
from borzoi.storage.reading import Chunk, chunks_of

#: The next slice is produced when fewer bytes than this await their first transmission.
QUEUED_BYTES_MAX: Final = 256 * 1024


class Sending:
    """The streams with unsent answers; they take turns."""

    def __init__(self, quic: QuicCore) -> None:
        self._quic = quic
        #: Stream, its next chunk, and those after it.
        self._answers: deque[tuple[int, Chunk, Iterator[Chunk]]] = deque()

    @property
    def is_done(self) -> bool:
        return not self._answers and not self._quic.get_send_buffer_size()

    @property
    def is_due(self) -> bool:
        """Whether another slice should be sent."""
        return bool(self._answers) and self._quic.get_send_buffer_size() < QUEUED_BYTES_MAX

    def add(self, number: int, reply: Reply) -> None:
        """Send an answer on its stream, which ends with it."""
        if isinstance(reply, RangesReply):
            self._answers.append((number, reply.head, chunks_of(reply.ranges, reply.tail)))
        else:
            self._write(number, reply, end=True)

    def go_on(self) -> None:
        """Send the next slice of the answer whose turn it is. Raises what reading raises."""
        number, chunk, chunks = self._answers.popleft()
        following = next(chunks, None)
        # End the stream with its last chunk: a separate FIN may never be sent.
        if self._write(number, bytes(chunk), end=following is None) and following is not None:
            self._answers.append((number, following, chunks))

    def forget(self, number: int) -> None:
        """The client has cancelled the answer."""
        self._answers = deque(one for one in self._answers if one[0] != number)

    def clear(self) -> None:
        self._answers.clear()

    def _write(self, number: int, data: bytes, *, end: bool) -> bool:
        """Whether the stream is still writable."""
        try:
            self._quic.send_stream_data(number, data, end_stream=end)
        except (AssertionError, ValueError):
            return False  # the client does not want it any more
        return True
