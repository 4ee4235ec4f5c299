"""Where the processes of shards come from: copies of a template.

The template is a process that was spawned, has loaded what a shard needs, and does nothing else. It
has no thread, no event loop, and none of the server's data, sockets or secrets, so a copy of it
is what a spawned process is after its imports. Copies share memory and the addresses of all code,
which makes shards on one processor faster; `docs/decisions/0019-shards-are-copies.md` has the
figures.

A shard is our own child, not the template's: we wait for it and it dies with us. The template forks
twice, and the process in between ends at once, so the kernel makes us the parent of the second.
"""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from borzoi.server import exit_statuses
from borzoi.server.control_messages import control_pair, receive, send
from borzoi.server.parentage import adopt_grandchildren
from borzoi.server.signals import hold_back, let_through
from borzoi.server.template_process import TEMPLATE_NAME, decode_copied

log = logging.getLogger(__name__)

TEMPLATE_MODULE: Final = "borzoi.server.template_process"
#: A template that has not answered by then has hung; loading takes a fraction of a second.
ANSWER_SECONDS_MAX: Final = 30.0


class Template:
    """The template of one program. It is started when the first copy is needed, and again if it was
    killed; copies do not depend on it."""

    def __init__(self, program: str) -> None:
        #: The module whose `main` the copies call.
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def copy(self, name: str, descriptors: Sequence[int]) -> int:
        """Start a process that shows the name and gets the descriptors; return its number. OSError
        if that is impossible."""
        if self._process is not None and self._process.poll() is not None:
            log.warning("the template of the shards %s; starting another one", self._ended())
        if self._control is None:
            self._control = self._started()
        try:
            send(self._control, name.encode(), descriptors)
            packet, _ = receive(self._control)
        except ConnectionError:
            packet = b""
        except TimeoutError:
            self.close()
            raise TimeoutError("the template of the shards does not answer") from None
        if not packet:
            raise ChildProcessError(f"the template of the shards {self._ended()}")
        return decode_copied(packet)

    def _started(self) -> socket.socket:
        adopt_grandchildren()
        ours, theirs = control_pair()
        # Block signals to the process group: only the shards handle them.
        hold_back()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(sys.executable, "-P", "-m", TEMPLATE_MODULE),
                    *(self._program, str(theirs.fileno()), TEMPLATE_NAME),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # No copy needs the threads of linear algebra, and threads are not copied.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            let_through()
        ours.settimeout(ANSWER_SECONDS_MAX)
        return ours

    def _ended(self) -> str:
        """The template has ended, or is about to; return how."""
        assert self._process is not None, "it was started"
        status = self._process.wait()
        self.close()
        return exit_statuses.ending(status)

    def close(self) -> None:
        """End the template; the copies go on."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None
