"""Creates an object exactly once although answers get lost.

Neither "already exists" nor a missing answer says whose object it is: it may be our own, from an
attempt whose answer was lost, and S3 answers 409 to mean "try again". So the object is read, and
its first bytes are compared with ours. A random nonce in them makes them unique to the writer.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    ObjectStoreError,
    PermissionDenied,
    RangeOutOfBounds,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.interface import Buffer, ObjectStore
from borzoi.objectstore.retries import Backoff

Sleep = Callable[[float], Awaitable[None]]

#: Enough for a store that keeps losing answers or reporting conflicts.
ATTEMPTS_MAX: Final = 10
_PASSING: Final[tuple[type[ObjectStoreError], ...]] = (Ambiguous, Throttled, Unavailable)


class Taken(ObjectExists):
    """Another writer's object has the key; `found` are its first bytes."""

    def __init__(self, key: str, found: bytes) -> None:
        super().__init__("another writer was first", op="create", key=key)
        self.found = found


async def create_once(
    store: ObjectStore,
    key: str,
    data: Buffer,
    *,
    compared: int | None = None,
    attempts: int | None = ATTEMPTS_MAX,
    sleep: Sleep = asyncio.sleep,
    dice: random.Random | None = None,
) -> None:
    """Create the object; `Taken` when another one is there.

    `compared` is how many of the first bytes identify our object; all by default. Without a limit
    of `attempts` this retries until the store answers, and treats rejected credentials as an
    outage too: they may be renewed.
    """
    passing = _PASSING if attempts is not None else (*_PASSING, PermissionDenied)
    backoff = Backoff(random.Random() if dice is None else dice)
    identity = bytes(data[:compared])
    attempt = 0
    while True:
        attempt += 1
        try:
            await store.create(key, data)
        except ObjectStoreError as fault:
            if not isinstance(fault, (ObjectExists, *passing)):
                raise
            try:
                found = await _beginning(store, key, len(identity))
            except ObjectStoreError as unread:
                if not isinstance(unread, passing):
                    raise
                found = None
            if found == identity:
                return
            if found is not None:
                raise Taken(key, found) from fault
            if attempts is not None and attempt >= attempts:
                raise
            await sleep(backoff.next(fault))
        else:
            return


async def _beginning(store: ObjectStore, key: str, length: int) -> bytes | None:
    """The first bytes of an object, or None when there is none."""
    try:
        return bytes(await store.get_range(key, 0, length))
    except ObjectNotFound:
        return None
    except RangeOutOfBounds:
        # It is shorter than ours, so another writer created it.
        return bytes((await store.get(key)).data)
