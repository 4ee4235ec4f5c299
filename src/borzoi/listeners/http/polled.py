"""Polled messages as text, written while they are sent: documents, lines, events.

Formatting a message takes ten microseconds, so a long poll is formatted in shares that queue up
with other work (`partitions/turns.py`), and only as fast as its client reads.
"""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec

from borzoi.handlers.answers import Delivery
from borzoi.listeners.http.bodies import Upload
from borzoi.partitions.message_runs import whole_messages
from borzoi.partitions.turns import turns
from borzoi.protocol.rest.messages import PolledDocument, message_document
from borzoi.records.message import Message, decode_messages

#: Larger polls are written piece by piece.
WRITTEN_AT_ONCE_BYTES_MAX: Final = 128 * 1024
WRITTEN_AT_ONCE_MESSAGES_MAX: Final = 256
#: Messages of one piece, about half a millisecond.
PIECE_MESSAGES: Final = 64

_encode = msgspec.json.encode


def is_written_at_once(delivery: Delivery) -> bool:
    reading = delivery.reading
    few = reading.count <= WRITTEN_AT_ONCE_MESSAGES_MAX
    return few and reading.size <= WRITTEN_AT_ONCE_BYTES_MAX


def document(delivery: Delivery) -> Iterator[bytes]:
    """One JSON document; without messages it omits the partition too."""
    reading = delivery.reading
    head = PolledDocument(0, 0, 0, [])
    if reading.count:
        head = PolledDocument(delivery.partition_id, delivery.current_offset, reading.count, [])
    yield _encode(head).removesuffix(b"]}")
    separator = b""
    for messages in _pieces(delivery):
        yield separator + b",".join([_encode(message_document(one)) for one in messages])
        separator = b","
    yield b"]}"


def lines(delivery: Delivery) -> Iterator[bytes]:
    """One message a line."""
    return _joined(delivery, lambda message: _encode(message_document(message)) + b"\n")


def events(delivery: Delivery) -> Iterator[bytes]:
    """One message an event, numbered by its offset."""

    def event(message: Message) -> bytes:
        return b"id: %d\ndata: %b\n\n" % (message.offset, _encode(message_document(message)))

    return _joined(delivery, event)


def _joined(delivery: Delivery, write: Callable[[Message], bytes]) -> Iterator[bytes]:
    for messages in _pieces(delivery):
        yield b"".join(map(write, messages))


def _pieces(delivery: Delivery) -> Iterator[list[Message]]:
    for run in whole_messages(delivery.reading.chunks(), PIECE_MESSAGES):
        yield decode_messages(run)


async def in_turns(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, each produced in its turn."""
    while (piece := await turns().share(lambda: next(pieces, None))) is not None:
        yield piece


async def while_wanted(pieces: Iterator[bytes], upload: Upload) -> AsyncIterator[bytes]:
    """The same until the client disconnects: the writer is not notified of that."""
    gone: Future[Any] = asyncio.ensure_future(upload.client_gone())
    try:
        async for piece in in_turns(pieces):
            if gone.done():
                return
            yield piece
    finally:
        gone.cancel()
