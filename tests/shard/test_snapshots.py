import io
import zipfile
from pathlib import Path

from borzoi.model.system import SnapshotCompression, SnapshotKind
from borzoi.shard.snapshots import EVERYTHING, Snapshots


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
