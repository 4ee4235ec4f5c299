"""Delta tables by the `deltalake` package: a transaction adds files and names their epoch."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction

from borzoi.spark.lake.files import DataFile
from borzoi.spark.lake.tables import Epoch
from borzoi.spark.options import InvalidOption


class DeltaLakeTable:
    """Implements `tables.Table`."""

    def __init__(self, directory: str, partition_by: Sequence[str] = ()) -> None:
        self._directory = directory
        self._partition_by = list(partition_by)

    def prepare(self, schema: pa.Schema) -> None:
        DeltaTable.create(
            self._directory, schema, mode="ignore", partition_by=self._partition_by or None
        )
        known = [field.name for field in self._table().schema().fields]
        if known != schema.names:
            raise InvalidOption(
                f"the Delta table {self._directory} has the columns {', '.join(known)}, "
                f"not {', '.join(schema.names)}"
            )

    def committed_epoch(self, query: str) -> int | None:
        try:
            return self._table().transaction_version(query)
        except TableNotFoundError:
            return None

    def commit(self, files: Sequence[DataFile], epoch: Epoch) -> bool:
        table = self._table()
        known = table.transaction_version(epoch.query)
        if known is not None and known >= epoch.number:
            return False
        table.create_write_transaction(
            [_action(each) for each in files],
            mode="append",
            schema=table.schema(),
            partition_by=self._partition_by or None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(epoch.query, epoch.number)]
            ),
        )
        return True

    def live_files(self) -> set[str]:
        prefix = self._table().table_uri.removeprefix("file://").rstrip("/") + "/"
        return {
            uri.removeprefix("file://").removeprefix(prefix) for uri in self._table().file_uris()
        }

    def rewrite(self, target_bytes: int, older_than_hours: float) -> int:
        """Rewrite small files into large ones, and remove files that no live version needs."""
        table = self._table()
        table.optimize.compact(target_size=target_bytes)
        removed = table.vacuum(
            retention_hours=int(older_than_hours), dry_run=False, enforce_retention_duration=False
        )
        return len(removed)

    def _table(self) -> DeltaTable:
        return DeltaTable(self._directory)


def _action(file: DataFile) -> AddAction:
    statistics: dict[str, Any] = {
        "numRecords": file.rows,
        "minValues": dict(file.least),
        "maxValues": dict(file.greatest),
        "nullCount": {},
    }
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(statistics),
    )
