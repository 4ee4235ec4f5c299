"""Iceberg tables by the `pyiceberg` package, with a SQL catalog in a SQLite file by default.

The last epoch of each query is a property of the table, set in the transaction that adds the files:
snapshots carry it too, but expire.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import Table as PyIcebergTable

from borzoi.spark.lake.files import DataFile
from borzoi.spark.lake.tables import Epoch
from borzoi.spark.options import InvalidOption

# It warns about every column without statistics; payloads have none on purpose.
logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)


class IcebergTable:
    """Implements `tables.Table`; `name` is namespace.table."""

    def __init__(
        self,
        directory: str,
        name: str,
        partition_by: Sequence[str] = (),
        catalog: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._name = name
        self._partition_by = tuple(partition_by)
        self._properties = dict(catalog or default_catalog(directory))

    def prepare(self, schema: pa.Schema) -> None:
        with self._catalog() as catalog:
            try:
                known = catalog.load_table(self._name).schema()
            except NoSuchTableError:
                self._create(catalog, schema)
                return
        names = [field.name for field in known.fields]
        if names != schema.names:
            raise InvalidOption(
                f"the Iceberg table {self._name} has the columns {', '.join(names)}, "
                f"not {', '.join(schema.names)}"
            )

    def _create(self, catalog: Catalog, schema: pa.Schema) -> None:
        namespace = self._name.rpartition(".")[0]
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        location = f"file://{Path(self._directory).resolve()}"
        table = catalog.create_table(self._name, schema, location=location)
        if self._partition_by:
            with table.update_spec() as update:
                for column in self._partition_by:
                    update.add_identity(column)

    def committed_epoch(self, query: str) -> int | None:
        with self._catalog() as catalog:
            try:
                return _epoch_of(catalog.load_table(self._name), query)
            except NoSuchTableError:
                return None

    def commit(self, files: Sequence[DataFile], epoch: Epoch) -> bool:
        with self._catalog() as catalog:
            return self._commit(catalog.load_table(self._name), files, epoch)

    def _commit(self, table: PyIcebergTable, files: Sequence[DataFile], epoch: Epoch) -> bool:
        known = _epoch_of(table, epoch.query)
        if known is not None and known >= epoch.number:
            return False
        root = Path(self._directory).resolve()
        with table.transaction() as transaction:
            transaction.set_properties({_property(epoch.query): str(epoch.number)})
            if files:
                transaction.add_files(
                    [f"file://{root / each.path}" for each in files],
                    snapshot_properties={
                        "borzoi.query": epoch.query,
                        "borzoi.epoch": str(epoch.number),
                    },
                    # Names are unique; reading all manifests to prove it costs more each time.
                    check_duplicate_files=False,
                )
        return True

    def live_files(self) -> set[str]:
        prefix = f"file://{Path(self._directory).resolve()}/"
        paths = self.table().inspect.files().column("file_path").to_pylist()
        return {path.removeprefix(prefix) for path in paths}

    def table(self) -> PyIcebergTable:
        """The pyiceberg table, for readers."""
        with self._catalog() as catalog:
            return catalog.load_table(self._name)

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        """Closed afterwards: a SQL catalog keeps connections to its database open."""
        catalog = load_catalog("borzoi", **self._properties)
        try:
            yield catalog
        finally:
            catalog.close()


def default_catalog(directory: str) -> dict[str, str]:
    """A catalog in one file next to the table."""
    root = Path(directory).resolve()
    root.mkdir(parents=True, exist_ok=True)
    return {
        "type": "sql",
        "uri": f"sqlite:///{root}/_borzoi_catalog.db",
        "warehouse": f"file://{root}",
    }


def _property(query: str) -> str:
    return f"borzoi.epoch.{query}"


def _epoch_of(table: Any, query: str) -> int | None:
    found = table.properties.get(_property(query))
    return None if found is None else int(found)
