import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.object_servers import SECRETS, rclone_server

from borzoi.__main__ import main


def run(*arguments: str, **environment: str):
    return CliRunner().invoke(main, ["storage", "probe", *arguments], env=environment)


def test_a_good_store_is_told_line_by_line(tmp_path: Path) -> None:
    result = run(f"file://{tmp_path}")
    assert result.exit_code == 0
    assert result.output.count("  yes  ") == 5
    assert result.output.endswith("this store can be used\n")
    assert list((tmp_path / "probe").iterdir()) == []


def test_the_verdict_as_json(tmp_path: Path) -> None:
    result = run(f"file://{tmp_path}", "--json")
    document = json.loads(result.output)
    assert document["accepted"] is True
    assert all(finding["holds"] for finding in document["findings"])


def test_what_cannot_be_asked_is_told_in_a_sentence(tmp_path: Path) -> None:
    result = run("ftp://host")
    assert result.exit_code == 2
    assert "begins with s3://" in result.stderr
    (tmp_path / "file").write_bytes(b"")
    result = run(f"file://{tmp_path}/file")
    assert result.exit_code == 2
    assert "could not be asked" in result.stderr


@pytest.mark.object
def test_rclone_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with rclone_server(data) as endpoint:
        result = run(
            f"s3://borzoi-tests/p?endpoint={endpoint}&region=us-east-1",
            AWS_ACCESS_KEY_ID=SECRETS.access_key_id,
            AWS_SECRET_ACCESS_KEY=SECRETS.secret_access_key,
        )
    assert result.exit_code == 1
    assert "NO   creating it again fails and leaves the first one" in result.output
    assert "cannot be used" in result.output
