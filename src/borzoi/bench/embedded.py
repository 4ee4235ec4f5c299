"""An embedded server: another process, in a temporary directory, on a free port."""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from borzoi.model.errors import CannotConnect

#: Transport → its section of the settings.
SECTIONS: Final = {"tcp": "tcp", "websocket": "websocket", "http": "http", "quic": "quic"}
START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
LOOK_AGAIN_SECONDS: Final = 0.02


def settings_for(transport: str, directory: Path) -> dict[str, str]:
    """Environment of a server that listens on TCP and the transport only."""
    found = {"BORZOI_SYSTEM_PATH": str(directory), "BORZOI_TCP_ADDRESS": "127.0.0.1:0"}
    for section in SECTIONS.values():
        if section == "tcp":
            continue
        name = section.upper()
        found[f"BORZOI_{name}_ENABLED"] = str(section == SECTIONS[transport]).lower()
        found[f"BORZOI_{name}_ADDRESS"] = "127.0.0.1:0"
    return found


@contextmanager
def embedded_server(transport: str = "tcp") -> Iterator[str]:
    """Run a server for the length of the block and yield its address; its data are deleted."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("BORZOI_")
    }
    with tempfile.TemporaryDirectory(prefix="borzoi-bench-") as folder:
        directory, log = Path(folder) / "data", Path(folder) / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "borzoi", "serve", "--with-default-root-credentials"],
                env=inherited | settings_for(transport, directory),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C ends the run first, and the run stops the server.
                start_new_session=True,
            )
        try:
            ready = _ready(process, directory / "runtime" / "current_config.toml", log)
            yield str(ready[SECTIONS[transport]]["address"])
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(process: subprocess.Popen[bytes], config: Path, log: Path) -> dict[str, Any]:
    until = time.monotonic() + START_SECONDS_MAX
    while not config.exists():
        if process.poll() is not None or time.monotonic() > until:
            said = log.read_text("utf-8", "replace").strip().splitlines()
            last = said[-1] if said else "it said nothing"
            raise CannotConnect(f"the embedded server did not start: {last}")
        time.sleep(LOOK_AGAIN_SECONDS)
    return tomllib.loads(config.read_text("utf-8"))
