"""A real server process on free ports, for tests of anything that talks to one.

`BORZOI_TEST_SHARDS` gives every server that many shards, unless a test says how many it wants.

>>> with running_server() as server:        # doctest: +SKIP
...     client.connect(server.tcp_address)
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

#: Generous, because tests share their machine and its disk: these only end what hangs. How quick a
#: stop has to be is the claim of tests of its own.
START_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 300.0
LOOK_AGAIN_SECONDS = 0.01

#: Files there are in memory; a machine may have no such place, or a small one.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 256 << 20


class ServerDied(RuntimeError):
    """The process ended before it was ready, or could not be stopped."""


@dataclass(slots=True)
class RunningServer:
    """A server process, its data directory and where it listens."""

    directory: Path
    environment: dict[str, str]
    arguments: Sequence[str]
    #: How many files and connections it may have open; as many as we may, without one.
    descriptors: int | None = None
    #: With borzoi in its environment.
    python: str = sys.executable
    process: subprocess.Popen[bytes] = field(init=False)
    tcp_address: tuple[str, int] = field(init=False)
    #: Where each transport that is enabled listens, by the name of its section.
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict, init=False)
    _reserved: socket.socket | None = field(default=None, init=False)

    @property
    def output(self) -> str:
        """All that the process has written so far, over all its starts."""
        return (self.directory.parent / f"{self.directory.name}.output").read_text()

    def start(self, *, says: str = "") -> None:
        """Start the process and wait until it says that it listens: by its readiness file, or with
        `says` by these words where a full disk may refuse the file."""
        before = len(self.output) if says else 0
        ready = self.directory / "runtime" / "current_config.toml"
        ready.unlink(missing_ok=True)
        with (self.directory.parent / f"{self.directory.name}.output").open("ab") as output:
            self.process = subprocess.Popen(
                [*self._limiting(), self.python, "-m", "borzoi", "serve", *self.arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory.parent,
            )
        until = time.monotonic() + START_SECONDS_MAX
        while not (says in self.output[before:] if says else ready.exists()):
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise ServerDied(f"the server did not start:\n{self.output}")
            time.sleep(LOOK_AGAIN_SECONDS)
        if says:
            return
        settings = tomllib.loads(ready.read_text())
        for transport in ("tcp", "http", "websocket", "quic"):
            if settings[transport]["enabled"]:
                host, _, port = settings[transport]["address"].rpartition(":")
                self.addresses[transport] = (host.strip("[]"), int(port))
                # The next start listens where this one did, as servers do that are reconnected to.
                self.environment[f"BORZOI_{transport.upper()}_ADDRESS"] = f"{host}:{port}"
        self.tcp_address = self.addresses["tcp"]
        if self._reserved is None:
            self._reserved = reserved(self.tcp_address)

    def _limiting(self) -> list[str]:
        if self.descriptors is None:
            return []
        return ["sh", "-c", f'ulimit -n {self.descriptors} && exec "$@"', "sh"]

    def stop(self) -> int:
        """Ask it to stop and wait; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as fault:
            self.kill()
            raise ServerDied(f"the server did not stop:\n{self.output}") from fault

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it for good: its port is free for others."""
        self.kill()
        if self._reserved is not None:
            self._reserved.close()


def reserved(address: tuple[str, int]) -> socket.socket:
    """A socket that keeps the port of a server for its next start.

    While none runs, the system could give the port to another process that binds port 0. This
    socket is bound and does not listen; a server shares its port and binds beside it.
    """
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


@contextmanager
def directory_in_memory() -> Iterator[Path]:
    """For claims about the time a server takes: where nothing waits for a disk that others use.
    An ordinary directory where the machine has no memory for it."""
    there = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    enough = there and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
    with tempfile.TemporaryDirectory(prefix="borzoi-", dir=MEMORY if enough else None) as folder:
        yield Path(folder) / "data"


def with_small_segments(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a test that chooses the size of segments: a message counts as saved at once, so a
    segment is sealed with the first append behind its size and not a thousand messages later."""
    if "SYSTEM_SEGMENT_SIZE" in settings:
        return {"SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1", **settings}
    return dict(settings)


@contextmanager
def running_server(
    settings: Mapping[str, str] | None = None,
    *,
    directory: Path | None = None,
    arguments: Sequence[str] = ("--with-default-root-credentials",),
    descriptors: int | None = None,
    python: str = sys.executable,
) -> Iterator[RunningServer]:
    """A server with default credentials on a port of its own; `settings` are variables without
    their prefix, such as ``{"SYSTEM_SEGMENT_SIZE": "1 MiB"}``, `descriptors` is its `ulimit -n`,
    `python` that of another version."""
    with tempfile.TemporaryDirectory(prefix="borzoi-") as folder:
        data = directory or Path(folder) / "data"
        data.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("BORZOI_", "IGGY_")) or name == "BORZOI_ACCELERATOR"
        }
        environment |= {
            "BORZOI_SYSTEM_PATH": str(data),
            "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
            "BORZOI_HTTP_ENABLED": "false",
            "BORZOI_QUIC_ENABLED": "false",
            "BORZOI_WEBSOCKET_ENABLED": "false",
            "BORZOI_SYSTEM_SHARDING_CPU_ALLOCATION": os.environ.get("BORZOI_TEST_SHARDS", "1"),
        }
        for name, value in with_small_segments(settings or {}).items():
            environment[f"BORZOI_{name}"] = value
        server = RunningServer(data, environment, arguments, descriptors, python)
        server.start()
        try:
            yield server
        finally:
            server.close()
