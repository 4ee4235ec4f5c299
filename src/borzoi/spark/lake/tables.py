"""The interface of a table format: its last committed epoch, and committing files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from borzoi.spark.lake.files import DataFile


@dataclass(frozen=True, slots=True)
class Epoch:
    """The origin of files: a batch of a query; a batch write counts as a query."""

    query: str
    number: int


class Table(Protocol):
    """A table to which files are committed atomically, once per epoch."""

    def prepare(self, schema: pa.Schema) -> None:
        """Create the table unless it exists; raise if its columns differ."""

    def committed_epoch(self, query: str) -> int | None:
        """Return the last epoch of the query in the table."""

    def commit(self, files: Sequence[DataFile], epoch: Epoch) -> bool:
        """Commit the files; False if the epoch is already committed."""

    def live_files(self) -> set[str]:
        """Paths of the files that are part of the table, relative to its directory."""
