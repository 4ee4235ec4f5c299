"""Cuts of an open log, whatever fails in between: declare, carry out, load again.

`storage/truncation.py` makes a cut atomic on the medium. This module keeps the open log consistent
with it: once a cut may have been declared it must happen, and the log must not be used before the
rest is loaded. A step that failed is due, and is repeated by the next call that needs the log.
"""

from collections.abc import Callable
from pathlib import Path

from borzoi.model.errors import StorageFailure
from borzoi.storage import layout, truncation
from borzoi.storage.media import Medium
from borzoi.storage.recovery_point import PointKeeper
from borzoi.storage.truncation import Intent


class Cutting:
    """The cuts of one log. `due` says that `go_on` has to be called before the log is used."""

    __slots__ = ("_directory", "_forget", "_keeper", "_load", "_medium", "_unfinished", "due")

    def __init__(
        self,
        medium: Medium,
        directory: Path,
        keeper: PointKeeper,
        *,
        forget: Callable[[], None],
        load: Callable[[], None],
    ) -> None:
        """`forget` drops what was cut once that is certain; `load` loads the rest."""
        self._medium = medium
        self._directory = directory
        self._keeper = keeper
        self._forget = forget
        self._load = load
        self._unfinished: Intent | None = None
        self.due = False

    @property
    def is_unfinished(self) -> bool:
        """Whether it is uncertain what is on the medium: the messages or the cut."""
        return self._unfinished is not None

    def cut(self, intent: Intent) -> None:
        """Cut everything after the intent. Raises if that has not happened, or not yet."""
        try:
            truncation.declare(self._medium, self._directory, intent)
        except StorageFailure:
            if self._medium.exists(self._directory / layout.INTENT):
                # It may have been declared, so it must happen.
                self._unfinished = intent
                self.due = True
            raise
        self._unfinished = intent
        self.due = True
        self.go_on()

    def go_on(self) -> None:
        """Carry out what is due; if that fails, it stays due."""
        if self._unfinished is not None:
            with self._keeper.cutting():
                truncation.carry_out(self._medium, self._directory, self._unfinished)
            self._unfinished = None
            self._forget()
        self._load()
        self.due = False
