"""A directory of Parquet files with manifests: a file counts if a manifest names it.

`_borzoi/commits/{number:020}.json` lists the files of one commit with their sizes, rows and the
query and epoch they came from. A manifest is written under a draft name and linked into place, so
the first writer of a number wins and a reader never sees a partial one. Readers that ignore
manifests also see the files of aborted epochs, until `compact` removes them.
"""

import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from borzoi.spark.lake.files import DataFile
from borzoi.spark.lake.tables import Epoch
from borzoi.spark.options import InvalidOption


class ParquetTable:
    """Implements `tables.Table`."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._commits = self._directory / "_borzoi" / "commits"

    def prepare(self, schema: pa.Schema) -> None:
        self._commits.mkdir(parents=True, exist_ok=True)
        described = {field.name: str(field.type) for field in schema}
        path = self._directory / "_borzoi" / "schema.json"
        if not path.exists():
            _put(path, json.dumps(described, indent=1).encode())
        known = json.loads(path.read_text())
        if known != described:
            raise InvalidOption(f"{self._directory} has the columns {known}, not {described}")

    def committed_epoch(self, query: str) -> int | None:
        epochs = [each["epoch"] for each in self.manifests() if each["query"] == query]
        return max(epochs, default=None)

    def commit(self, files: Sequence[DataFile], epoch: Epoch) -> bool:
        while True:
            known = self.committed_epoch(epoch.query)
            if known is not None and known >= epoch.number:
                return False
            number = max((each["number"] for each in self.manifests()), default=-1) + 1
            manifest = {
                "number": number,
                "query": epoch.query,
                "epoch": epoch.number,
                "files": [asdict(each) for each in files],
            }
            if _put(self._commits / f"{number:020}.json", json.dumps(manifest).encode()):
                return True

    def live_files(self) -> set[str]:
        live: set[str] = set()
        for manifest in self.manifests():
            live -= set(manifest.get("removed", ()))
            live |= {each["path"] for each in manifest["files"]}
        return live

    def manifests(self) -> list[dict[str, Any]]:
        """All commits in their order."""
        paths = sorted(self._commits.glob("*.json")) if self._commits.is_dir() else []
        return [json.loads(path.read_text()) for path in paths]

    def replace(self, removed: Sequence[str], files: Sequence[DataFile]) -> None:
        """Replace files by others atomically."""
        number = max((each["number"] for each in self.manifests()), default=-1) + 1
        manifest = {
            "number": number,
            "query": f"compact-{uuid.uuid4().hex}",
            "epoch": 0,
            "removed": list(removed),
            "files": [asdict(each) for each in files],
        }
        if not _put(self._commits / f"{number:020}.json", json.dumps(manifest).encode()):
            raise InvalidOption(f"{self._directory} changed during the compaction: try again")


def _put(path: Path, content: bytes) -> bool:
    """Create a file atomically; False if it exists."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
