"""Sends that are too large for one turn of the loop: stored piece by piece, in order.

Meanwhile other sends to the partition queue up behind it, so the messages of a send stay together.
A piece is stored like a separate batch: if a later one fails, the send fails, and earlier pieces
stay stored, as after a crash in the middle of a write.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from borzoi.model.errors import StorageFailure
from borzoi.partitions.appending import Appender
from borzoi.partitions.turns import Work, turns
from borzoi.records.batch import Batch


class LongSend(NamedTuple):
    """A large batch that waits for its turn, and the future of its answer."""

    batch: Batch
    now: int
    stored: "Future[None]"


class LongAppends:
    """The sends of one partition that are stored in pieces, and those behind them.

    It begins with the first of them and has ended when all are stored.
    """

    __slots__ = ("_appended", "_appender", "_end", "_ended", "_is_working", "_queue")

    def __init__(
        self,
        appender: Appender,
        appended: "Callable[[Future[None] | None], None]",
        ended: Callable[[], None],
    ) -> None:
        self._appender = appender
        #: Called for each piece, with its future.
        self._appended = appended
        #: Called when nothing is left.
        self._ended = ended
        self._queue: deque[LongSend] = deque()
        self._is_working = False
        #: Why storing has stopped; a purge is not a failure.
        self._end: StorageFailure | None = None

    def add(self, batch: Batch, now: int) -> "Future[None]":
        """A future that resolves when all of the batch is acknowledged, or fails."""
        stored: Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(LongSend(batch, now, stored))
        if not self._is_working:
            self._is_working = True
            turns().work(self._work())
        return stored

    def end(self, *, purged: bool) -> None:
        """The partition is being removed: pending sends fail, or count as purged."""
        self._end = StorageFailure("the partition was removed while messages were being stored")
        while self._queue:
            _settle(self._queue.popleft().stored, None if purged else self._end)

    def _has_ended(self) -> bool:
        """Asked again after each turn: the partition may have gone away in between."""
        return self._end is not None

    def _work(self) -> Work[None]:
        try:
            while self._queue:
                yield from self._store(self._queue[0])
                if self._queue:
                    self._queue.popleft()
        finally:
            self._ended()

    def _store(self, sent: LongSend) -> Work[None]:
        waiting: list[Future[None]] = []
        log = self._appender.log
        before = log.next_offset
        for piece in self._appender.pieces(sent.batch):
            if self._has_ended():
                return
            try:
                waiter = yield from self._appender.appending(piece, now=sent.now)
            except Exception as fault:
                _settle(sent.stored, fault)
                return
            self._appended(waiter)
            if waiter is not None:
                waiting.append(waiter)
            yield
            if (failed := next((one for one in waiting if _failed(one)), None)) is not None:
                _settle(sent.stored, failed.exception())
                return
            waiting = [one for one in waiting if not one.done()]
        if not self._has_ended() and log.next_offset != before:
            log.end_send()
        _settle_after(sent.stored, waiting)


def _failed(waiter: "Future[None]") -> bool:
    return waiter.done() and waiter.exception() is not None


def _settle(stored: "Future[None]", fault: BaseException | None) -> None:
    if stored.done():
        return
    if fault is None:
        stored.set_result(None)
    else:
        stored.set_exception(fault)


def _settle_after(stored: "Future[None]", waiting: "list[Future[None]]") -> None:
    """Resolve when all pieces are done; the first failure fails the send."""
    if not waiting:
        _settle(stored, None)
        return

    def done(_: "Future[None]") -> None:
        if all(one.done() for one in waiting):
            _settle(stored, next(filter(None, (one.exception() for one in waiting)), None))

    for one in waiting:
        one.add_done_callback(done)
