import asyncio
import json
import os
import pty
import re
import subprocess
import sys
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
        fill(log, 19, seed=number)  # four segments and most of a fifth
        views.append(view_of(log, namespace))
    store = DirectoryStore(tmp_path / "archive")
    asyncio.run(archiver_to(store).run(views, state))
    return tmp_path / "archive"


def run(*arguments: object):
    return CliRunner().invoke(main, ["archive", *map(str, arguments)])


def test_list_shows_partitions_and_metadata(archive: Path) -> None:
    result = run("list", f"file://{archive}")
    assert result.exit_code == 0
    since = "since 2023-11-14 22:13:20 UTC"
    assert f"node  0/0/0  {since}: 4 segments from offset 0, 172.80 KB" in result.output
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
    assert "18 files, 345.60 KB" in result.output
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
    result = run("verify", f"file://{archive}", "--server", "nobody")
    assert (result.exit_code, "has no server 'nobody'" in result.stderr) == (2, True)
    result = run("restore", f"file://{archive}", "--to", tmp_path / "x", "--server", "node")
    assert result.exit_code == 0


@pytest.mark.parametrize("words", [["list"], ["verify"], ["restore", "--to", "TO"], ["copy", "TO"]])
def test_what_goes_wrong_is_one_sentence(words: list[str], tmp_path: Path) -> None:
    command, *rest = [word.replace("TO", f"file://{tmp_path}/to") for word in words]
    (tmp_path / "file").write_bytes(b"")
    for url in (f"file://{tmp_path}/nowhere", f"file://{tmp_path}/file", "ftp://host", "s3://"):
        result = run(command, url, *rest)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""
    result = run(command, f"file://{tmp_path}/nowhere", *rest)
    assert result.stderr == f"error: there is no archive at file://{tmp_path}/nowhere\n"
    assert not (tmp_path / "to").exists()


def test_a_target_that_cannot_be_written_is_one_sentence(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = run("restore", f"file://{archive}", "--to", tmp_path / "file" / "below")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "Not a directory" in result.stderr


def test_a_store_that_does_not_answer_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    result = run("list", "s3://bucket/archive?endpoint=http://127.0.0.1:1&region=us-east-1")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: list_page archive") or "error: list" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["verify"], "reading"),
        (["restore", "--to", "TO"], "restoring"),
        (["copy", "file://TO"], "copying"),
    ],
)
def test_on_a_terminal_a_bar_shows_how_far_it_is(
    archive: Path, tmp_path: Path, words: list[str], what: str
) -> None:
    command, *rest = [word.replace("TO", f"{tmp_path}/to") for word in words]
    controller, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "borzoi", "archive", command, f"file://{archive}", *rest],
            stdout=subprocess.PIPE,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        shown = os.read(controller, 1 << 16).decode()
    finally:
        os.close(controller)
        os.close(terminal)
    assert done.returncode == 0
    assert what in shown
    assert re.search(r"([\d.]+)/\1 [kM]B", shown), "it ends with all of it"
