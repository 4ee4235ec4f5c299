"""A snapshot for support: the state of this process, its log and its settings, as an archive.

Only our own process is shown, and settings come without their secrets.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from borzoi.model.system import SnapshotCompression, SnapshotKind

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


class Snapshots:
    """Takes snapshots of one server, off the event loop."""

    def __init__(self, data_directory: Path, logs_directory: Path, config_file: Path) -> None:
        self._data = data_directory
        self._logs = logs_directory
        self._config = config_file

    async def taken(self, compression: SnapshotCompression, kinds: Sequence[SnapshotKind]) -> bytes:
        # Each kind once, even if it was requested twice: a log is large.
        wanted = EVERYTHING if SnapshotKind.ALL in kinds else tuple(dict.fromkeys(kinds))
        return await asyncio.to_thread(self._archive, compression, wanted)

    def _archive(self, compression: SnapshotCompression, kinds: Sequence[SnapshotKind]) -> bytes:
        # Imported here: few servers are asked for a snapshot.
        from borzoi.diagnostics.archive import snapshot_archive

        writers: Mapping[SnapshotKind, Callable[[], str]] = {
            SnapshotKind.FILESYSTEM_OVERVIEW: self._files,
            SnapshotKind.PROCESS_LIST: _process,
            SnapshotKind.RESOURCE_USAGE: _resources,
            SnapshotKind.TEST: lambda: "test\n",
            SnapshotKind.SERVER_LOGS: self._log_lines,
            SnapshotKind.SERVER_CONFIG: self._settings,
        }
        members = [(f"{kind.name.lower()}.txt", writers[kind]().encode()) for kind in kinds]
        return snapshot_archive(members, compression)

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
        newest_first = sorted(self._logs.glob("*.log*"), key=_modified_at, reverse=True)
        parts: list[bytes] = []
        room = LOG_BYTES_MAX
        for path in newest_first:
            parts.append(_end_of(path, room))
            room -= len(parts[-1])
        return b"".join(reversed(parts)).decode(errors="replace")

    def _settings(self) -> str:
        return self._config.read_text() if self._config.exists() else ""


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # rotated away since it was listed


def _end_of(path: Path, size: int) -> bytes:
    """Return the last bytes of a file; none if it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read(size)
    except OSError:
        return b""


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
