"""What a server does not load before it needs it."""

import subprocess
import sys

LOADED = """
import sys
import borzoi.server.config, borzoi.server.process
ours = ("borzoi.archive", "borzoi.objectstore")
print(*sorted(name for name in sys.modules if name.startswith(ours)))
others = {"uvicorn", "httptools", "qh3", "cryptography", "obstore", "zipfile"}
print(*sorted(others & sys.modules.keys()))
"""


def test_a_server_loads_an_archive_only_when_it_has_one() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60
    )
    ours, others = run.stdout.split("\n")[:2]
    assert ours.split() == ["borzoi.archive", "borzoi.archive.interface"]
    assert others == ""
