"""Work on one batch while the next one is on its way."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_END: Final = object()


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """The same items, each fetched by a thread while the one before is worked on.

    Waiting for the server or for a file then costs no time of its own. One item is fetched ahead,
    and no more.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        pending = pool.submit(next, items, _END)
        while (item := pending.result()) is not _END:
            pending = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]
