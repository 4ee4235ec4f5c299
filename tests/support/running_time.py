"""Time that passes while this process runs.

A machine that measures something else may stop all other work for seconds. A server that was
stopped like its test has not been slow.
"""

import threading
import time
from types import TracebackType
from typing import Self

TICK_SECONDS = 0.02
#: A tick that comes later than this was stopped, not slow.
STOPPED_SECONDS_MIN = 1.0


class RunningTime:
    """A clock that stands still while its process is stopped."""

    def __init__(self) -> None:
        self._stopped_seconds = 0.0
        self._last_tick = time.monotonic()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def seconds(self) -> float:
        with self._lock:
            self._note(time.monotonic())
            return self._last_tick - self._stopped_seconds

    def _tick(self) -> None:
        while not self._end.wait(TICK_SECONDS):
            with self._lock:
                self._note(time.monotonic())

    def _note(self, now: float) -> None:
        gap = now - self._last_tick
        if gap > STOPPED_SECONDS_MIN:
            self._stopped_seconds += gap
        self._last_tick = now
