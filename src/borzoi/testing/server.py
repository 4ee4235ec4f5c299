"""A server with a temporary directory and its own port.

>>> with Server() as server:                            # a process       # doctest: +SKIP
...     with Client(server.url) as client: ...
>>> async with Server() as server:                      # in this loop    # doctest: +SKIP
...     async with AsyncClient(server.url) as client: ...

It is the real server: the same code on real sockets and files, with the default settings. In a
process it can be killed, paused and restarted; inside a loop there is no process to start, and one
debugger sees both ends.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from borzoi.server.assembly import open_data
from borzoi.server.config import load
from borzoi.server.data_directory import DataDirectory
from borzoi.server.launching import Start
from borzoi.server.process import RunningServer as RealServer
from borzoi.testing.faults import Proxy

#: Only against hanging: a start takes a third of a second.
START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
LOOK_AGAIN_SECONDS: Final = 0.002

#: The user of every test server.
USERNAME: Final = "iggy"
PASSWORD: Final = "iggy"  # noqa: S105 - the well-known one, for tests


class ServerDied(RuntimeError):
    """The process ended before it was ready, or could not be stopped; its output is the text."""


class Server:
    """A server for tests: ``with`` runs it in a process, ``async with`` in the running loop.

    `settings` are variables of the configuration without their prefix, such as
    ``{"SYSTEM_SEGMENT_SIZE": "1 MiB"}``. Its data are in a temporary directory, or in `directory`,
    which is kept afterwards.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._settings = dict(settings or {})
        self._given_directory = None if directory is None else Path(directory)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._loop_server: RealServer | None = None
        self._serving: asyncio.Task[int] | None = None
        self._data_directory: DataDirectory | None = None
        self._reserved: socket.socket | None = None
        self._address: tuple[str, int] | None = None
        self._is_paused = False

    # ---- where it is ----------------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of TCP; the same after a restart."""
        if self._address is None:
            raise RuntimeError("the server has not been started: use it in a with statement")
        return self._address

    @property
    def url(self) -> str:
        """A connection string with the credentials of root."""
        host, port = self.address
        return f"borzoi://{USERNAME}:{PASSWORD}@{host}:{port}"

    @property
    def directory(self) -> Path:
        """The data directory."""
        if self._given_directory is not None:
            return self._given_directory
        if self._folder is None:
            raise RuntimeError("the server has not been started: use it in a with statement")
        return self._folder / "data"

    @property
    def output(self) -> str:
        """The output of the process so far, over all its starts."""
        return (self._own_folder() / "output").read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # ---- faults ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        folder = self._own_folder()
        ready = self.directory / "runtime" / "current_config.toml"
        ready.unlink(missing_ok=True)
        with (folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "borzoi", "serve", "--with-default-root-credentials"],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        until = time.monotonic() + START_SECONDS_MAX
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise ServerDied(f"the server did not start:\n{self.output}")
            time.sleep(LOOK_AGAIN_SECONDS)
        host, _, port = tomllib.loads(ready.read_text())["tcp"]["address"].rpartition(":")
        self._address = (host.strip("[]"), int(port))
        if self._reserved is None:
            self._reserved = _reserved(self._address)

    def stop(self) -> int:
        """Stop it gracefully and return its exit code."""
        process = self._running_process()
        self.resume()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerDied(f"the server did not stop:\n{self.output}") from None

    def kill(self) -> None:
        """Kill the process, as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._is_paused = False

    def restart(self) -> None:
        """Kill the process and start it again, with the same data at the same address."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Pause the process: connections stay open, and nothing is answered."""
        self._signal_all(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """Resume a paused process."""
        if self._is_paused:
            self._signal_all(signal.SIGCONT)
            self._is_paused = False

    def proxy(self) -> Proxy:
        """Return a proxy to the server that can drop and delay connections."""
        return Proxy(self.address, credentials=f"{USERNAME}:{PASSWORD}")

    # ---- in a process ---------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._clean_up()

    # ---- in the running loop --------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._own_folder()
        environment = self._environment()
        configuration = load(environment, self.directory)
        start = Start(
            configuration,
            fresh=False,
            default_credentials=True,
            follower=False,
            environment=environment,
        )
        self._data_directory = DataDirectory(self.directory)
        self._data_directory.__enter__()
        try:
            opened = open_data(
                configuration.settings,
                self.directory,
                environment=environment,
                default_credentials=True,
            )
            self._loop_server = RealServer(start, self.directory, opened)
            await self._loop_server.listen()
        except BaseException:
            self._data_directory.__exit__(None, None, None)
            raise
        self._address = self._loop_server.addresses["tcp"]
        self._serving = asyncio.create_task(self._loop_server.serve(), name="borzoi test server")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._loop_server is not None
        assert self._serving is not None
        assert self._data_directory is not None
        self._loop_server.stop()
        await asyncio.wait([self._serving])
        await self._loop_server.close()
        self._data_directory.__exit__(None, None, None)
        self._clean_up()

    # ---- what both need -------------------------------------------------------------------------

    def _own_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="borzoi-"))
            self.directory.mkdir(parents=True, exist_ok=True)
        return self._folder

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BORZOI_", "IGGY_"))
        }
        host, port = self._address or ("127.0.0.1", 0)
        environment |= {
            "BORZOI_SYSTEM_PATH": str(self.directory),
            "BORZOI_TCP_ADDRESS": f"{host}:{port}",
            "BORZOI_HTTP_ENABLED": "false",
            "BORZOI_QUIC_ENABLED": "false",
            "BORZOI_WEBSOCKET_ENABLED": "false",
            # It starts most quickly alone, and is the same on every machine.
            "BORZOI_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
        }
        return environment | {f"BORZOI_{name}": value for name, value in self._settings.items()}

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("a server inside the loop has no process to stop or to pause")
        return self._process

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the process and to those of its shards, if any."""
        pid = self._running_process().pid
        os.kill(pid, number)
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for child in children.read_text().split() if children.exists() else ():
            os.kill(int(child), number)

    def _clean_up(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _reserved(address: tuple[str, int]) -> socket.socket:
    """A socket that reserves the port of a server for its next start.

    While no server runs, the system could give the port to another process. This socket is bound
    and does not listen; a server, which shares its port between processes, can bind as well.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(address)
    return sock
