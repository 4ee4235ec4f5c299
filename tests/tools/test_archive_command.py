import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.archive.test_archiver import State
from tests.support.archives import archiver_to, files_in, fill, open_partition, view_of

from borzoi.__main__ import main
from borzoi.model.namespace import Namespace
from borzoi.objectstore.directory import DirectoryStore


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive in a directory, of two partitions and the metadata."""
    views, state = [], State()
    state.last_index = 4
    for number in range(2):
        namespace = Namespace(0, 0, number)
        log = open_partition(tmp_path / "data", namespace)
        fill(log, 20, seed=number)
        views.append(view_of(log, namespace))
    store = DirectoryStore(tmp_path / "archive")
    asyncio.run(archiver_to(store).run(views, state))
    return tmp_path / "archive"


def run(*arguments: object):
    return CliRunner().invoke(main, ["archive", *map(str, arguments)])


def test_list_shows_partitions_and_metadata(archive: Path) -> None:
    result = run("list", f"file://{archive}")
    assert result.exit_code == 0
    assert "node  0/0/0  since 1700000000000000: 4 segments from offset 0" in result.output
    assert "node  metadata: 1 copies, up to 4" in result.output
    rows = [
        json.loads(line) for line in run("list", f"file://{archive}", "--json").output.splitlines()
    ]
    assert [row.get("partition") for row in rows] == [0, 1, None]
    assert rows[0]["unmarked_files"] == 0
    assert rows[2]["states"] == [4]


def test_restore_brings_everything_or_what_was_named(archive: Path, tmp_path: Path) -> None:
    result = run("restore", f"file://{archive}", "--to", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "8 segments of 2 partitions" in result.output
    assert "as of entry 4" in result.output
    back = files_in(tmp_path / "all" / "streams")
    assert back.items() <= files_in(tmp_path / "data" / "streams").items()
    assert len(back) == 16
    assert (tmp_path / "all" / "info.json").exists()
    result = run("restore", f"file://{archive}", "--to", tmp_path / "one", "--stream", 0,
                 "--topic", 0, "--partition", 1, "--from-offset", 100)  # fmt: skip
    assert "2 segments of 1 partitions" in result.output
    assert not (tmp_path / "one" / "info.json").exists()
    result = run("restore", f"file://{archive}", "--to", tmp_path / "all")
    assert (result.exit_code, "is not empty" in result.stderr) == (2, True)
    result = run("restore", f"file://{archive}", "--to", tmp_path / "x", "--stream", 9)
    assert (result.exit_code, "no such segment" in result.stderr) == (2, True)


def test_verify_finds_a_flipped_byte(archive: Path) -> None:
    result = run("verify", f"file://{archive}")
    assert result.exit_code == 0
    assert "18 files" in result.output
    assert "0 faults" in result.output
    victim = next(archive.rglob("*.log"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    result = run("verify", f"file://{archive}")
    assert result.exit_code == 1
    assert f"{victim.name}" in result.output
    assert "its checksum is" in result.output
    result = run("verify", f"file://{archive}", "--json")
    *rows, total = [json.loads(line) for line in result.output.splitlines()]
    assert (len(rows), total["faults"]) == (1, 1)


def test_copy_makes_another_archive_and_can_be_repeated(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    result = run("copy", f"file://{archive}", f"file://{other}")
    assert result.exit_code == 0, result.output
    assert files_in(other) == files_in(archive)
    assert "0 files were copied" in run("copy", f"file://{archive}", f"file://{other}").output
    assert run("verify", f"file://{other}").exit_code == 0


def test_of_several_servers_one_has_to_be_named(archive: Path, tmp_path: Path) -> None:
    (archive / "another" / "state" / f"{0:020}").mkdir(parents=True)
    (archive / "another" / "state" / f"{0:020}" / "info.json").write_bytes(b"")
    result = run("restore", f"file://{archive}", "--to", tmp_path / "x")
    assert (result.exit_code, "another, node" in result.stderr) == (2, True)
    result = run("restore", f"file://{archive}", "--to", tmp_path / "x", "--server", "node")
    assert result.exit_code == 0
