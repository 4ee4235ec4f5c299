"""What spark-submit runs, without spark-submit; `test_outgrowing` runs it whole."""

import subprocess
import sys
from pathlib import Path

from borzoi.spark import submitted


def test_a_wrong_file_is_told_apart_from_a_failed_run(tmp_path: Path) -> None:
    command = [sys.executable, submitted.__file__, str(tmp_path / "absent.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "cannot read" in done.stderr
