"""A snapshot for support: what our own process looks like, its log and its settings, as an archive.

Only our own process is shown, and settings come without their secrets.
"""

import asyncio
import io
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from borzoi.model.system import SnapshotCompression, SnapshotKind
from borzoi.shard.archive import COMPRESSORS, XZ, ZSTANDARD, archive

EVERYTHING = (
    SnapshotKind.FILESYSTEM_OVERVIEW,
    SnapshotKind.PROCESS_LIST,
    SnapshotKind.RESOURCE_USAGE,
    SnapshotKind.SERVER_LOGS,
    SnapshotKind.SERVER_CONFIG,
)

#: Log files can be large; the end of them is what support reads.
LOG_BYTES_MAX = 16 * 1024 * 1024

OWN_PROCESS = ("cmdline", "limits", "status", "io", "statm", "sched")

METHODS: Mapping[SnapshotCompression, int] = {
    SnapshotCompression.STORED: zipfile.ZIP_STORED,
    SnapshotCompression.DEFLATED: zipfile.ZIP_DEFLATED,
    SnapshotCompression.BZIP2: zipfile.ZIP_BZIP2,
    SnapshotCompression.ZSTD: ZSTANDARD,
    SnapshotCompression.LZMA: zipfile.ZIP_LZMA,
    SnapshotCompression.XZ: XZ,
}


class Snapshots:
    """Takes snapshots of one server, off the event loop."""

    def __init__(self, data_directory: Path, logs_directory: Path, config_file: Path) -> None:
        self._data = data_directory
        self._logs = logs_directory
        self._config = config_file

    async def taken(self, compression: SnapshotCompression, kinds: Sequence[SnapshotKind]) -> bytes:
        method = METHODS[compression]
        wanted = EVERYTHING if SnapshotKind.ALL in kinds else tuple(kinds)
        return await asyncio.to_thread(self._archive, method, wanted)

    def _archive(self, method: int, kinds: Sequence[SnapshotKind]) -> bytes:
        writers: Mapping[SnapshotKind, Callable[[], str]] = {
            SnapshotKind.FILESYSTEM_OVERVIEW: self._files,
            SnapshotKind.PROCESS_LIST: _process,
            SnapshotKind.RESOURCE_USAGE: _resources,
            SnapshotKind.TEST: lambda: "test\n",
            SnapshotKind.SERVER_LOGS: self._log_lines,
            SnapshotKind.SERVER_CONFIG: self._settings,
        }
        members = [(f"{kind.name.lower()}.txt", writers[kind]().encode()) for kind in kinds]
        if method in COMPRESSORS:
            return archive(members, method)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as standard:
            for name, content in members:
                standard.writestr(name, content)
        return buffer.getvalue()

    def _files(self) -> str:
        lines = []
        for folder, _, names in os.walk(self._data):
            for name in sorted(names):
                path = Path(folder) / name
                try:
                    lines.append(f"{path.stat().st_size:>14} {path.relative_to(self._data)}")
                except OSError:
                    continue
        return "\n".join(lines) + "\n"

    def _log_lines(self) -> str:
        files = sorted(self._logs.glob("*.log*"), key=lambda path: path.stat().st_mtime)
        text = "".join(path.read_text(errors="replace") for path in files)
        return text[-LOG_BYTES_MAX:]

    def _settings(self) -> str:
        return self._config.read_text() if self._config.exists() else ""


def _process() -> str:
    parts = []
    for name in OWN_PROCESS:
        try:
            text = Path(f"/proc/self/{name}").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue
        parts.append(f"== {name}\n{text}\n")
    return "".join(parts)


def _resources() -> str:
    try:
        return Path("/proc/loadavg").read_text() + Path("/proc/meminfo").read_text()
    except OSError:
        return ""
