"""Creating an object exactly once although answers get lost.

Neither "already exists" nor silence tells whose object is there: it may be our own, from an attempt
whose answer was lost, and S3 answers 409 to mean "try again". So the object is read: its first
bytes are ours or another's. For that they must differ from anything another writer would send,
which a random nonce in them ensures.
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

#: Enough for a store that answers each attempt with a lost response or a conflict.
ATTEMPTS_MAX: Final = 10
_PASSING: Final[tuple[type[ObjectStoreError], ...]] = (Ambiguous, Throttled, Unavailable)


class Taken(ObjectExists):
    """Another writer's object has the key; `found` is how it begins."""

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

    `compared` is how many of the first bytes tell our object from others; all, when not given.
    Without a limit of `attempts` this goes on until the store answers, and takes refused
    credentials for an outage as well: they may be renewed.
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
        # It is shorter than ours, so it is another's.
        return bytes((await store.get(key)).data)
