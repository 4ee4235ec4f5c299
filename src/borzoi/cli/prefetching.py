"""Process one batch while the next one is fetched and the last one written."""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

_END: Final = object()


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the same items, each fetched by a thread while the previous one is processed.

    This hides the latency of the server or the file. At most one item is fetched ahead.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        pending = pool.submit(next, items, _END)
        while (item := pending.result()) is not _END:
            pending = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]


@contextmanager
def behind(act: Callable[[T], None]) -> Iterator[Callable[[T], None]]:
    """The same function, carried out by a thread: a call waits for the one before it alone.

    The block ends when everything is done. A fault comes with the next call, or with that end.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="behind") as pool:
        pending: Future[None] | None = None

        def call(item: T) -> None:
            nonlocal pending
            if pending is not None:
                pending.result()
            pending = pool.submit(act, item)

        yield call
        if pending is not None:
            pending.result()
