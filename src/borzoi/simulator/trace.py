"""One line per event, in columns: who, in which role, how far, and what happened.

tick  node/group role status view  commit_min/commit_max/op  bad records   event
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from borzoi.consensus.replica import Replica

KEPT_LINES: Final = 400


class Trace:
    """Hands every line to `sink`, or keeps only the last ones for the report of a failure."""

    def __init__(self, sink: Callable[[str], None] | None, *, keep: bool) -> None:
        self.enabled = sink is not None or keep
        self._sink = sink
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)

    def line(self, text: str) -> None:
        if self._sink is not None:
            self._sink(text)
        self._kept.append(text)

    def last(self) -> tuple[str, ...]:
        return tuple(self._kept)


def event_line(tick: int, replica: Replica, faulty: int, event: str) -> str:
    role = "P" if replica.is_primary else "b"
    return (
        f"{tick:>7} {replica.replica_id}/{replica.group} {role} {replica.status.name:<11} "
        f"v{replica.view:<3} l{replica.log_view:<3} "
        f"{replica.commit_min:>5}/{replica.commit_max}/{replica.op:<6} "
        f"{f'!{faulty}' if faulty else '':<3} {event}"
    )


def describe(header: object) -> str:
    """The fields of a frame that decide anything, without checksums in full length."""
    shown = []
    for name in ("view", "log_view", "op", "commit", "request", "operation", "namespace"):
        value = getattr(header, name, None)
        if value is not None:
            shown.append(f"{name}={value}")
    checksum = getattr(header, "prepare_checksum", None) or getattr(header, "checksum", b"")
    if checksum and any(checksum):
        shown.append(checksum[:3].hex())
    return f"{type(header).__name__} {' '.join(shown)}"
