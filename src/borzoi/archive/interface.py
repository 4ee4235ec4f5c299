"""What a server asks of its archive, and what the archive asks of the server.

A server without an archive loads nothing else of this package.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from borzoi.model.namespace import Namespace
from borzoi.model.value import Value
from borzoi.storage.segment import SegmentFacts


class PartitionView(Value):
    """A partition as the archiver sees it."""

    namespace: Namespace
    created_at: int
    directory: Path
    segments: Sequence[SegmentFacts]


class StateFiles(Protocol):
    """The metadata files of a server."""

    @property
    def last_index(self) -> int:
        """The number of the last entry; -1 when there is none."""
        ...

    def read(self) -> dict[str, bytes]:
        """Return a consistent copy of the files, by name. Blocks."""
        ...


class Archive(Protocol):
    """Copies sealed segments to another place."""

    async def run(self, partitions: Sequence[PartitionView], state: StateFiles | None) -> None:
        """Copy what is new; called at every interval."""

    def deletable(self, namespace: Namespace, segments: Sequence[SegmentFacts], count: int) -> int:
        """Return how many of the `count` oldest segments are archived and may be deleted."""

    async def close(self) -> None: ...
