import io
import os
import zipfile
from pathlib import Path

import pytest

from borzoi.diagnostics.snapshots import EVERYTHING, Snapshots
from borzoi.model.system import SnapshotCompression, SnapshotKind


async def test_all_means_everything_but_the_test(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "borzoi.log").write_text("a line\n")
    (tmp_path / "current_config.toml").write_text("[tcp]\n")
    snapshots = Snapshots(tmp_path, tmp_path / "logs", tmp_path / "current_config.toml")
    taken = await snapshots.taken(SnapshotCompression.DEFLATED, [SnapshotKind.ALL])
    with zipfile.ZipFile(io.BytesIO(taken)) as archive:
        assert archive.namelist() == [f"{kind.name.lower()}.txt" for kind in EVERYTHING]
        assert b"a line" in archive.read("server_logs.txt")
        assert archive.read("server_config.txt") == b"[tcp]\n"
        assert b"borzoi.log" in archive.read("filesystem_overview.txt")
        assert b"VmRSS" in archive.read("process_list.txt")


async def test_nothing_asked_for_is_an_empty_archive(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, tmp_path / "logs", tmp_path / "current_config.toml")
    assert len(await snapshots.taken(SnapshotCompression.STORED, [])) == 22


async def test_what_is_asked_for_again_and_again_is_given_once(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, tmp_path / "logs", tmp_path / "current_config.toml")
    asked = [SnapshotKind.SERVER_LOGS, SnapshotKind.TEST] * 100
    taken = await snapshots.taken(SnapshotCompression.STORED, asked)
    with zipfile.ZipFile(io.BytesIO(taken)) as archive:
        assert archive.namelist() == ["server_logs.txt", "test.txt"]


async def test_of_the_logs_the_end_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borzoi.diagnostics.snapshots.LOG_BYTES_MAX", 10)
    for age, (name, text) in enumerate([("a.log", "newest"), ("a.log.1", "old"), ("b.log", "x")]):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    snapshots = Snapshots(tmp_path, tmp_path, tmp_path / "current_config.toml")
    taken = await snapshots.taken(SnapshotCompression.STORED, [SnapshotKind.SERVER_LOGS])
    with zipfile.ZipFile(io.BytesIO(taken)) as archive:
        assert archive.read("server_logs.txt") == b"xoldnewest"
    (tmp_path / "a.log").write_text("the newest lines")
    os.utime(tmp_path / "a.log", (2000, 2000))
    taken = await snapshots.taken(SnapshotCompression.STORED, [SnapshotKind.SERVER_LOGS])
    with zipfile.ZipFile(io.BytesIO(taken)) as archive:
        assert archive.read("server_logs.txt") == b"west lines"
