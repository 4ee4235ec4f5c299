"""The arenas of other processes: resolves positions in their memory.

An arena is mapped when its first buffer arrives. Views keep the mapping after its owner has died,
so a batch stays readable until it is written.
"""

import os

from borzoi.memory.pool import Arena


class Arenas:
    """Mapped arenas by the number of their owner."""

    def __init__(self) -> None:
        self._arenas: dict[int, Arena] = {}

    def view(self, owner: int, descriptor: int, position: int, length: int) -> memoryview:
        """Return memory of another process. `descriptor` is its arena, duplicated to map it;
        raises `OSError` when it cannot be mapped, and `ValueError` outside of it."""
        arena = self._arenas.get(owner)
        if arena is None:
            copied = os.dup(descriptor)
            try:
                arena = Arena.attach(copied)
            except BaseException:
                os.close(copied)
                raise
            self._arenas[owner] = arena
        if not 0 <= position <= position + length <= arena.size:
            raise ValueError(f"{length} bytes at {position} are outside the arena")
        return arena.view[position : position + length]

    def forget(self, owner: int) -> None:
        """Drop the arena of an owner that has died; its replacement has another one."""
        arena = self._arenas.pop(owner, None)
        if arena is not None:
            arena.close()

    def close(self) -> None:
        for owner in list(self._arenas):
            self.forget(owner)
