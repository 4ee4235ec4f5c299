"""Iterates over all keys of a store with a common prefix."""

from collections.abc import AsyncIterator

from borzoi.objectstore.interface import ObjectMeta, ObjectStore


async def list_objects(
    store: ObjectStore, prefix: str, *, start_after: str = ""
) -> AsyncIterator[ObjectMeta]:
    """Yield every object whose key begins with `prefix`, in the order of the keys.

    Each page starts after the last key of the previous one, so objects created or deleted
    meanwhile neither hide others nor appear twice.
    """
    while page := await store.list_page(prefix, start_after=start_after):
        for meta in page:
            yield meta
        start_after = page[-1].key


async def list_last(store: ObjectStore, prefix: str) -> ObjectMeta | None:
    """Return the object of a folder with the greatest key; stores list forwards only, so all
    are read."""
    last: ObjectMeta | None = None
    start_after = ""
    while page := await store.list_page(prefix, start_after=start_after):
        last = page[-1]
        start_after = last.key
    return last
