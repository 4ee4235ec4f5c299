"""Which messages were already accepted: the ids of the recent ones, bounded by count and by age.

The filter stands before numbering: a duplicate gets no offset, so the log has no holes. Only ids
that the client chose can repeat; an id of zero requests a new one and is never a duplicate.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

ID_BYTES: Final = 16
NO_ID: Final = bytes(ID_BYTES)

#: 16 bytes per message, back to back: bytes, a view of them, or a numpy column of any such type.
Ids: TypeAlias = bytes | bytearray | memoryview | NDArray[np.generic]


class Deduplicator:
    """The recently accepted ids of one partition; used only by its owner.

    At most `max_entries` ids are kept (0: any number), each for `expiry_us` since it was accepted
    (0: for ever). A repeated id is not refreshed: it expires when its message does.
    """

    def __init__(self, max_entries: int, expiry_us: int) -> None:
        self.max_entries = max_entries
        self.expiry_us = expiry_us
        # id → its place in the order of arrival. The queue keeps ids that were withdrawn, and an
        # id that came back later has a later place, so a place tells whether the entry is live.
        self._places: dict[bytes, int] = {}
        self._order: deque[bytes] = deque()
        self._first_place = 0
        #: [accepted at, how many ids of the queue], oldest first.
        self._ages: deque[list[int]] = deque()

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, ids: Ids, now: int) -> NDArray[np.bool_] | None:
        """Which messages are new, and remembers those; None when all of them are.

        The first of several messages with one id inside the batch is the new one.
        """
        self._expire(now)
        keys = _keys(ids)
        places = self._places
        if places.keys().isdisjoint(keys):
            distinct = len(set(keys))
            if distinct == len(keys):
                self._remember(keys, now)
                return None
            if distinct == 1 and keys[0] == NO_ID:
                return None
        fresh = np.ones(len(keys), dtype=np.bool_)
        new: dict[bytes, None] = {}
        for position, key in enumerate(keys):
            if key in places or key in new:
                fresh[position] = False
            elif key != NO_ID:
                new[key] = None
        self._remember(list(new), now)
        return None if fresh.all() else fresh

    def withdraw(self, ids: Ids) -> None:
        """Forgets ids that were admitted and then not stored, so that a retry is accepted."""
        for key in _keys(ids):
            self._places.pop(key, None)

    def warm(self, ids: Ids, timestamps: Sequence[int] | NDArray[np.uint64], now: int) -> None:
        """Remembers messages found in the log, oldest first, unless they are too old already."""
        start = 0
        keys = _keys(ids)
        while start < len(keys):
            at = int(timestamps[start])
            end = start + 1
            # All messages of one request share their timestamp.
            while end < len(keys) and int(timestamps[end]) == at:
                end += 1
            if not self.expiry_us or at + self.expiry_us > now:
                self._remember(list(dict.fromkeys(keys[start:end])), at)
            start = end

    def clear(self) -> None:
        """Forgets everything: after a purge any id may come again."""
        self._places.clear()
        self._order.clear()
        self._ages.clear()

    def _remember(self, keys: list[bytes], at: int) -> None:
        if NO_ID in keys:
            keys = [key for key in keys if key != NO_ID]
        if not keys:
            return
        place = self._first_place + len(self._order)
        self._places.update(zip(keys, range(place, place + len(keys)), strict=True))
        self._order.extend(keys)
        if self._ages and self._ages[-1][0] == at:
            self._ages[-1][1] += len(keys)
        else:
            self._ages.append([at, len(keys)])
        if self.max_entries:
            self._drop(len(self._order) - self.max_entries)

    def _expire(self, now: int) -> None:
        if self.expiry_us:
            while self._ages and self._ages[0][0] + self.expiry_us <= now:
                self._drop(self._ages[0][1])

    def _drop(self, count: int) -> None:
        """Forgets the `count` oldest entries of the queue."""
        places, order = self._places, self._order
        for _ in range(count):
            key = order.popleft()
            if places.get(key) == self._first_place:
                del places[key]
            self._first_place += 1
        while count > 0:
            age = self._ages[0]
            if age[1] > count:
                age[1] -= count
                return
            count -= age[1]
            self._ages.popleft()


def _keys(ids: Ids) -> list[bytes]:
    raw = ids.tobytes() if isinstance(ids, np.ndarray) else bytes(ids)
    keys: list[bytes] = np.frombuffer(raw, dtype="V16").tolist()
    return keys
