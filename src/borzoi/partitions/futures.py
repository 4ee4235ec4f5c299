"""Answers that may be available at once: `A | Future[A]`.

Callers handle both. An available answer costs no task and no future; one that must wait for the
disk, or for the process that owns the partition, is a future.
"""

from asyncio import Future, gather
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

A = TypeVar("A")
B = TypeVar("B")


class PromptFuture(Future[A]):
    """A future that also has listeners, which are called when it is settled.

    The callbacks of a future run in the next turn of the event loop, and an answer that has come
    from another shard need not wait for it. Listeners run before the settling call returns; one
    that raises is reported to the loop.
    """

    _listeners: tuple[Callable[["PromptFuture[A]"], object], ...] = ()

    def listen(self, listener: Callable[["PromptFuture[A]"], object]) -> None:
        if self.done():
            self.add_done_callback(cast(Callable[[Future[A]], object], listener))
        else:
            self._listeners += (listener,)

    def settle(self, answer: A) -> None:
        self.set_result(answer)
        self._tell()

    def fail(self, fault: Exception) -> None:
        self.set_exception(fault)
        self.exception()  # retrieved: the caller may have been cancelled
        self._tell()

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        self._tell()
        return is_cancelled

    def _tell(self) -> None:
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            try:
                listener(self)
            except Exception as fault:
                message = "a listener failed"
                self.get_loop().call_exception_handler({"message": message, "exception": fault})


async def arrived(answer: "A | Future[A]") -> A:
    """Return the answer; does not yield to the event loop if it is available."""
    return await answer if isinstance(answer, Future) else answer


def then(answer: "A | Future[A]", make: Callable[[A], B]) -> B | Coroutine[Any, Any, B]:
    """Return `make(answer)`: at once if the answer is available, else a coroutine."""
    return _later(answer, make) if isinstance(answer, Future) else make(answer)


async def _later(answer: "Future[A]", make: Callable[[A], B]) -> B:
    return make(await answer)


def gathered(answers: "Sequence[A | Future[A]]") -> "list[A] | Future[list[A]]":
    """Return all answers in order: a list if all are available, else a future of one."""
    if not any(isinstance(answer, Future) for answer in answers):
        return cast(list[A], list(answers))
    return gather(*(arrived(answer) for answer in answers))


def after(done: "Future[None]", answer: A) -> "Future[A]":
    """A future of `answer` that resolves when `done` does, and fails when `done` fails."""
    promised: Future[A] = done.get_loop().create_future()

    def resolve(done: "Future[None]") -> None:
        if promised.done():
            return  # cancelled by its owner
        failure = None if done.cancelled() else done.exception()
        if done.cancelled():
            promised.cancel()
        elif failure is not None:
            promised.set_exception(failure)
        else:
            promised.set_result(answer)

    done.add_done_callback(resolve)
    return promised


def following(
    source: "Future[A]", make: Callable[[A], B], *, withdraw: bool = False
) -> "Future[B]":
    """A future of `make(answer)`, which may be cancelled without cancelling the source, or with
    `withdraw` cancels it."""
    promised: Future[B] = source.get_loop().create_future()

    def resolve(done: "Future[A]") -> None:
        if promised.done():
            if not done.cancelled():
                done.exception()  # retrieved: it has no waiter
        elif done.cancelled():
            promised.cancel()
        else:
            try:
                promised.set_result(make(done.result()))
            except Exception as fault:
                promised.set_exception(fault)

    source.add_done_callback(resolve)
    if withdraw:
        promised.add_done_callback(lambda done: source.cancel() if done.cancelled() else None)
    return promised
