import fcntl
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.golden import GOLDEN_DATA, GOLDEN_KEY

from borzoi.__main__ import main
from borzoi.server.data_directory import LOCK_NAME, DataDirectory


def run(*arguments, env=None):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def data(tmp_path):
    target = tmp_path / "data"
    assert run("import", "iggy", GOLDEN_DATA / "rotation/data", "--to", target).exit_code == 0
    return target


def partition(data: Path) -> Path:
    return data / "streams/0/topics/0/partitions/0"


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("case", ["basic", "rotation", "metadata"])
def test_an_import_says_what_it_brought_over_and_checks_it(tmp_path, case):
    result = run("import", "iggy", GOLDEN_DATA / case / "data", "--to", tmp_path / "data")
    assert result.exit_code == 0
    assert "1 streams" in result.output or case == "metadata"
    assert "all sound" in result.output
    assert run("log", "verify", tmp_path / "data").exit_code == 0


def test_an_encrypted_directory_is_imported_with_its_key(tmp_path):
    source = GOLDEN_DATA / "encrypted/data"
    refused = run("import", "iggy", source, "--to", tmp_path / "data")
    assert refused.exit_code == 2
    assert "needs its key" in refused.output
    done = run("import", "iggy", source, "--to", tmp_path / "data", "--encryption-key", GOLDEN_KEY)
    assert done.exit_code == 0
    assert "2 users" in done.output
    by_variable = run(
        "log", "verify", tmp_path / "data", env={"IGGY_SYSTEM_ENCRYPTION_KEY": GOLDEN_KEY}
    )
    assert by_variable.exit_code == 0
    wrong = run("log", "verify", tmp_path / "data", "--encryption-key", "short")
    assert wrong.exit_code == 2
    assert "encryption key" in wrong.output


def test_an_import_can_link_and_skip_the_check(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(GOLDEN_DATA / "rotation/data", source)
    (source / "streams/0/topics/0/partitions/0/notes.txt").write_text("hello")
    result = run("import", "iggy", source, "--to", tmp_path / "data", "--link", "--no-verify")
    assert result.exit_code == 0
    assert "of them linked" in result.output
    assert "warning: " in result.output
    assert "sound" not in result.output


def test_verifying_sound_data_is_quiet_and_successful(data):
    result = run("log", "verify", data)
    assert result.exit_code == 0
    assert result.output.startswith("20 messages and 0 metadata entries in")
    assert result.output.endswith("all sound\n")


def test_verifying_names_the_damaged_message_and_fails(data):
    flip(partition(data) / "00000000000000000008.log", 500)
    result = run("log", "verify", data)
    assert result.exit_code == 1
    assert "00000000000000000008.log, byte" in result.output
    assert "1 damaged" in result.output
    rows = [json.loads(line) for line in run("log", "verify", data, "--json").output.splitlines()]
    assert [row["kind"] for row in rows] == ["damage", "summary"]
    assert rows[1]["damages"] == 1


def test_verifying_beside_a_running_server_says_so(data):
    with DataDirectory(data):
        assert "a server uses this directory" in run("log", "verify", data).output
    assert "a server uses" not in run("log", "verify", partition(data)).output


def test_a_directory_without_anything_is_told_apart_from_a_sound_one(tmp_path):
    for command in ("verify", "repair"):
        result = run("log", command, tmp_path)
        assert result.exit_code == 2
        assert "holds neither metadata nor a partition" in result.output


def test_messages_are_shown_for_people_and_for_programs(data):
    lines = run("log", "dump", partition(data), "--from", 7, "--count", 2).output.splitlines()
    assert [line.split()[:2] for line in lines] == [["message", "7"], ["message", "8"]]
    rows = run("log", "dump", partition(data), "--json").output.splitlines()
    assert [json.loads(row)["offset"] for row in rows] == list(range(20))
    state = run("log", "dump", data, "--json").output.splitlines()
    assert json.loads(state[0])["kind"] == "snapshot"
    assert run("log", "dump", data).output.startswith("snapshot 2")


def test_dumping_something_else_is_one_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    result = run("log", "dump", tmp_path / "notes.txt")
    assert result.exit_code == 2
    assert result.output.startswith("error: ")


def test_a_repair_explains_itself_and_waits_for_yes(data):
    path = partition(data) / "00000000000000000008.log"
    flip(path, 500)
    before = path.read_bytes()
    plan = run("log", "repair", data)
    assert plan.exit_code == 1
    assert "put an empty message in the place of each that cannot be read" in plan.output
    assert "1 message is lost for good" in plan.output
    assert "nothing was changed" in plan.output
    assert path.read_bytes() == before
    assert not (data / "backup").exists()
    done = run("log", "repair", "--yes", data)
    assert done.exit_code == 0
    assert "1 repairs were made" in done.output
    assert run("log", "verify", data).exit_code == 0
    assert run("log", "repair", data).output == "nothing is damaged\n"
    kept = list((data / "backup").rglob("00000000000000000008.log"))
    assert [file.read_bytes() for file in kept] == [before]


def test_a_repair_keeps_away_from_a_running_server(data):
    flip(partition(data) / "00000000000000000008.log", 500)
    with DataDirectory(data):
        for place in (data, partition(data)):
            result = run("log", "repair", "--yes", place)
            assert result.exit_code == 2
            assert "in use by another server" in result.output
    with (data / LOCK_NAME).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_what_cannot_be_repaired_is_told_and_fails(data):
    flip(data / "state.snapshot", 60)
    result = run("log", "repair", "--yes", data)
    assert result.exit_code == 1
    assert "restore this file from a backup" in result.output
    assert "nothing that could be repaired" in result.output


def test_a_partition_copied_elsewhere_can_be_repaired_by_itself(data, tmp_path):
    place = tmp_path / "copy"
    shutil.copytree(partition(data), place)
    (place / "00000000000000000000.index").unlink()
    assert run("log", "verify", place).exit_code == 1
    assert run("log", "repair", "--yes", place).exit_code == 0
    assert run("log", "verify", place).exit_code == 0
