"""Counters that all load processes share: progress for the screen, and when consumers are done."""

from collections.abc import Iterable
from ctypes import c_longlong
from multiprocessing.sharedctypes import RawArray
from typing import Final

SENT: Final = 0
RECEIVED: Final = 1
PAYLOAD_BYTES: Final = 2
BATCHES: Final = 3
DONE: Final = 4
FIELDS: Final = 5


class Board:
    """One row per actor, written by that actor alone, so nothing is locked."""

    def __init__(self, actors: int) -> None:
        #: The last item is set when the run was interrupted.
        self._cells = RawArray(c_longlong, actors * FIELDS + 1)
        self.actors = actors

    def add(self, actor: int, *, sent: int = 0, received: int = 0, payload_bytes: int) -> None:
        row = actor * FIELDS
        cells = self._cells
        cells[row + SENT] += sent
        cells[row + RECEIVED] += received
        cells[row + PAYLOAD_BYTES] += payload_bytes
        cells[row + BATCHES] += 1

    def finish(self, actor: int) -> None:
        self._cells[actor * FIELDS + DONE] = 1

    def total(self, field: int, actors: Iterable[int]) -> int:
        return sum(self._cells[actor * FIELDS + field] for actor in actors)

    def all_done(self, actors: Iterable[int]) -> bool:
        return all(self._cells[actor * FIELDS + DONE] for actor in actors)

    def interrupt(self) -> None:
        self._cells[self.actors * FIELDS] = 1

    @property
    def interrupted(self) -> bool:
        return bool(self._cells[self.actors * FIELDS])
