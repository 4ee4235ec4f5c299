"""The arenas of other processes: resolves positions in their memory.

An arena is mapped when its first buffer arrives. Views keep the mapping after its owner has died,
so a batch stays readable until it is written.
"""

import os
from collections.abc import Callable

from borzoi.memory.pool import Arena


class Arenas:
    """Mapped arenas by the number of their owner. `descriptor_of` gives the descriptor of one,
    which is duplicated to map it."""

    def __init__(self, descriptor_of: Callable[[int], int]) -> None:
        self._descriptor_of = descriptor_of
        self._arenas: dict[int, Arena] = {}

    def view(self, owner: int, position: int, length: int) -> memoryview:
        """Return memory of another process. Raises `OSError` when it cannot be mapped, and
        `ValueError` outside of it."""
        arena = self._arenas.get(owner) or self._attach(owner)
        if not 0 <= position <= position + length <= arena.size:
            raise ValueError(f"{length} bytes at {position} are outside the arena")
        return arena.view[position : position + length]

    def _attach(self, owner: int) -> Arena:
        copied = os.dup(self._descriptor_of(owner))
        try:
            arena = self._arenas[owner] = Arena.attach(copied)
        except BaseException:
            os.close(copied)
            raise
        return arena

    def forget(self, owner: int) -> None:
        """Drop the arena of an owner that has died; its replacement has another one."""
        arena = self._arenas.pop(owner, None)
        if arena is not None:
            arena.close()

    def close(self) -> None:
        for owner in list(self._arenas):
            self.forget(owner)
