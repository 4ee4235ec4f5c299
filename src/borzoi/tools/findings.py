"""What an inspection has to say, as values.

NOTE      as it should be, or what the next start of the server deals with anyway
WARNING   something may be missing at the end of a log, or a file tells nothing
DAMAGE    bytes that were acknowledged are not what they were
"""

from enum import IntEnum
from pathlib import Path

from borzoi.model.value import Value


class Severity(IntEnum):
    NOTE = 0
    WARNING = 1
    DAMAGE = 2


class Finding(Value):
    """One thing about one file; `position` is a byte of it, `offset` a message or an entry."""

    severity: Severity
    path: Path
    what: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = str(self.path)
        if self.position is not None:
            place += f", byte {self.position}"
        if self.offset is not None:
            place += f", message {self.offset}"
        return f"{place}: {self.what}"


class Progress(Value):
    """Count bytes, messages or metadata entries that were checked."""

    path: Path
    read_bytes: int
    messages: int = 0
    entries: int = 0
