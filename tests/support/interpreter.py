"""A Python process of its own, which ends by itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def run_python(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """What it said and how it ended; the options are those of `subprocess.run`."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)
