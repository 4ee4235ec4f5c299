"""What spark-submit runs, without spark-submit; `test_outgrowing` runs it whole."""

from pathlib import Path

from tests.support.interpreter import run_python

from borzoi.spark import submitted


def test_a_wrong_file_is_told_apart_from_a_failed_run(tmp_path: Path) -> None:
    done = run_python(submitted.__file__, tmp_path / "absent.toml")
    assert done.returncode == 2
    assert "cannot read" in done.stderr
