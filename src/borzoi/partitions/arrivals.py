"""Consumers that wait for the next message of a partition."""

import asyncio
from asyncio import Future


class Arrivals:
    """The waiting polls. Each costs a future and a timer, and nothing while it waits."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        #: Made when a consumer waits: thousands of partitions have none.
        self.waiting: set[Future[None]] | None = None

    def wait(self, seconds: float) -> "Future[None]":
        """Return a cancellable future that resolves with the next `wake` or at the timeout."""
        loop = asyncio.get_running_loop()
        waiting: Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _resolve, waiting)
        pending = self.waiting = set() if self.waiting is None else self.waiting

        def forget(done: "Future[None]") -> None:
            timer.cancel()
            pending.discard(done)

        pending.add(waiting)
        waiting.add_done_callback(forget)
        return waiting

    def wake(self) -> None:
        """Wake all: messages have arrived, or the partition is being removed."""
        for waiting in self.waiting or ():
            _resolve(waiting)


def _resolve(waiting: "Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
