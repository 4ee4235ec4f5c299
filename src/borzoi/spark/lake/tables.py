"""What a sink asks of a table format: which epoch is in it, and to take files in with the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from borzoi.spark.lake.files import DataFile


@dataclass(frozen=True, slots=True)
class Epoch:
    """Where files come from: a batch of a query; a batch write is a query of its own."""

    query: str
    number: int


class Table(Protocol):
    """A table that takes files in one atomic step, each epoch once."""

    def prepare(self, schema: pa.Schema) -> None:
        """Create the table unless it is there; raise when its columns are others."""

    def committed_epoch(self, query: str) -> int | None:
        """The last epoch of the query that is in the table."""

    def commit(self, files: Sequence[DataFile], epoch: Epoch) -> bool:
        """Take the files in; False when the epoch is there already."""

    def live_files(self) -> set[str]:
        """Paths of the files that are part of the table, relative to its directory."""
