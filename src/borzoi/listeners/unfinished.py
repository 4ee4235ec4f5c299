"""How much memory large requests may take while they arrive and run, over all connections.

A request gets its memory when its frame begins, so it counts with the size it announced. A request
that was admitted can always finish; the others queue up and hold only their first bytes.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from borzoi.model.limits import UNAUTHENTICATED_BYTES_MAX
from borzoi.partitions.turns import Turns

#: Smaller frames are not counted; the number of connections bounds them.
COUNTED_BYTES_MIN: Final = UNAUTHENTICATED_BYTES_MAX + 1
UNFINISHED_BYTES_DEFAULT: Final = 1 << 30

GoOn: TypeAlias = Callable[[], None]


class Unfinished:
    """The large requests of all connections of one shard."""

    __slots__ = ("_turns", "_waiting", "in_use", "limit")

    def __init__(self, limit: int, turns: Turns) -> None:
        self.limit = limit
        self._turns = turns
        #: Bytes of admitted requests.
        self.in_use = 0
        self._waiting: deque[tuple[int, GoOn]] = deque()

    @property
    def waiting(self) -> int:
        """How many requests wait for admission."""
        return len(self._waiting)

    def enter(self, size: int) -> bool:
        """Admit a request of this size, unless the limit is reached or others wait."""
        if self._waiting or not self._has_room(size):
            return False
        self.in_use += size
        return True

    def _has_room(self, size: int) -> bool:
        # A request larger than the limit is admitted alone, or it would never be.
        return not self.in_use or self.in_use + size <= self.limit

    def wait(self, size: int, go_on: GoOn) -> None:
        """Call `go_on` in a later turn, when a request of this size has been admitted."""
        self._waiting.append((size, go_on))

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait until a request of this size is admitted; released when the block ends."""
        if size < COUNTED_BYTES_MIN:
            yield
            return
        if not self.enter(size):
            await self._let_in_later(size)
        try:
            yield
        finally:
            self.leave(size)

    async def _let_in_later(self, size: int) -> None:
        came: Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if came.cancelled():
                self.leave(size)
            else:
                came.set_result(None)

        self.wait(size, go_on)
        try:
            await came
        except asyncio.CancelledError:
            if came.cancelled():
                self.forget(go_on)
            else:
                self.leave(size)
            raise

    def forget(self, go_on: GoOn) -> None:
        """Cancel a waiting callback."""
        self._waiting = deque(one for one in self._waiting if one[1] != go_on)
        self._let_in()

    def leave(self, size: int) -> None:
        """Release an admitted request."""
        self.in_use -= size
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, go_on = self._waiting.popleft()
            self.in_use += size
            self._turns.wait(go_on)
