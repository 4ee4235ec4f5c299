"""The arenas of other processes: what a position that one of them names stands for.

An arena is mapped when its first buffer is met. Views keep the mapping after its owner has died, so
a batch that is being written stays readable until it is written.
"""

import os

from borzoi.memory.pool import Arena


class Arenas:
    """Mapped arenas by the number of their owner."""

    def __init__(self) -> None:
        self._arenas: dict[int, Arena] = {}

    def view(self, owner: int, descriptor: int, position: int, length: int) -> memoryview:
        """Memory of another process. `descriptor` is its arena, which is copied to map it; raises
        `OSError` when it cannot be mapped, and `ValueError` for what lies outside."""
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
        """The owner is gone, and the next one has another arena."""
        arena = self._arenas.pop(owner, None)
        if arena is not None:
            arena.close()

    def close(self) -> None:
        for owner in list(self._arenas):
            self.forget(owner)
