"""A program on a terminal of a given size, as a person would see it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")
MOVE_CURSOR = re.compile(r"\x1b\[[0-9;]*[Hf]")
SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"
ENTER_SCREEN = "\x1b[?1049h"
LEAVE_SCREEN = "\x1b[?1049l"
ECHOED_CTRL_C = "^C"
#: A program that shows nothing new for this long hangs.
PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Terminal:
    """The side of the person: what the program wrote, and keys for it."""

    process: subprocess.Popen[bytes]
    master: int
    columns: int
    data: bytes = b""

    def wait_for(self, *texts: str) -> str:
        """Read until all texts were shown, in any order."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(text in self.shown for text in texts):
            assert time.monotonic() < deadline, f"{texts} not in {self.written!r}"
            if not self._read():
                assert all(text in self.shown for text in texts), f"{texts} not in {self.written!r}"
        return self.shown

    def interrupt(self) -> None:
        """Ctrl-C, as the terminal turns it into a signal."""
        os.write(self.master, b"\x03")

    def end(self) -> int:
        """Read to the end; the exit code, negative for a signal."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"it did not end: {self.written!r}"
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Take what there is; False at the end. A program must never wait for us to read."""
        ready, _, _ = select.select([self.master], [], [], 1.0)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            # Linux says EIO when the last program has closed the terminal.
            return False
        self.data += data
        return bool(data)

    @property
    def written(self) -> str:
        # All at once: a character may have come in two reads.
        return self.data.decode("utf-8", "replace")

    @property
    def shown(self) -> str:
        """What was written, without the commands to the terminal."""
        return ESCAPE.sub("", self.written)

    @property
    def width(self) -> int:
        """Cells of the widest line. A line ends where the cursor goes elsewhere."""
        by_program = self.written.replace(ECHOED_CTRL_C, "")
        lines = re.split(r"[\r\n]+", ESCAPE.sub("", MOVE_CURSOR.sub("\n", by_program)))
        return max(map(cell_len, lines))

    def echoes(self) -> bool:
        """Whether the terminal is in the mode that a shell expects."""
        local_modes = termios.tcgetattr(self.master)[3]
        return bool(local_modes & termios.ECHO and local_modes & termios.ICANON)


@contextlib.contextmanager
def on_terminal(
    command: Sequence[str], *, columns: int, environment: Mapping[str, str]
) -> Iterator[Terminal]:
    """Run a program on a terminal; it is killed when the block ends."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**kept, "TERM": "xterm-256color", **environment},
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(process, master, columns)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def _take_terminal() -> None:
    """Make the terminal the controlling one, so that Ctrl-C becomes a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
