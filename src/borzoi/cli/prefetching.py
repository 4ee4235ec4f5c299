"""Process one batch while the next one is being fetched."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
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
