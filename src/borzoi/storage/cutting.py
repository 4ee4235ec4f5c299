"""A cut of an open log, whatever fails on the way: declared, carried out, loaded again.

`storage/truncation.py` makes a cut one step on the medium. Here is what the log that is open
meanwhile owes it: once a cut may have been declared it must happen, and the log must not be used
before what it has left is loaded. What could not be done at once is due, and done by the next call
that needs the log.
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
        """`forget` lets go of what was cut, when that is certain; `load` takes what is left."""
        self._medium = medium
        self._directory = directory
        self._keeper = keeper
        self._forget = forget
        self._load = load
        self._unfinished: Intent | None = None
        self.due = False

    @property
    def is_unfinished(self) -> bool:
        """Whether neither the messages nor the cut are certain to be on the medium."""
        return self._unfinished is not None

    def cut(self, intent: Intent) -> None:
        """Forget what is behind the intent. Raises when that did not happen, or not yet."""
        try:
            truncation.declare(self._medium, self._directory, intent)
        except StorageFailure:
            if self._medium.exists(self._directory / layout.INTENT):
                # Declared, perhaps not for good. What may happen must happen.
                self._unfinished = intent
                self.due = True
            raise
        self._unfinished = intent
        self.due = True
        self.go_on()

    def go_on(self) -> None:
        """Do what is due; when that fails, it stays due."""
        if self._unfinished is not None:
            with self._keeper.cutting():
                truncation.carry_out(self._medium, self._directory, self._unfinished)
            self._unfinished = None
            self._forget()
        self._load()
        self.due = False
