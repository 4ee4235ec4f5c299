"""The process of one shard, started by the supervisor: ``python -m borzoi.server.shard_process``.

Its arguments are two descriptors, the connection to the supervisor, which sends everything else,
and the lock of the data directory, which stays locked until the last process has ended; and its
name, for people who look at the list of processes.
"""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from borzoi import __version__
from borzoi.model.errors import BorzoiError
from borzoi.server import exit_statuses
from borzoi.server.config import Configuration
from borzoi.server.control import ShardControl, SupervisorGone, begun
from borzoi.server.control_messages import Begin
from borzoi.server.declaring import parsed_section
from borzoi.server.launching import Start
from borzoi.server.logs import start_logging
from borzoi.server.seating import take_seat
from borzoi.server.settings import Settings
from borzoi.server.signals import let_through, while_serving
from borzoi.shard.links import Links

log = logging.getLogger(__name__)

#: The number of the request in <sys/prctl.h>.
PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> int:
    """Serve as one shard until the supervisor stops it; return the exit status."""
    control, lock = map(int, arguments[:2])
    for descriptor in (control, lock):
        os.set_inheritable(descriptor, False)
    die_with_supervisor()
    sock = socket.socket(fileno=control)
    try:
        begin, links = begun(sock)
    except SupervisorGone:
        return exit_statuses.CANNOT_START
    if os.getppid() != begin.supervisor:
        # The supervisor died before prctl took effect.
        return exit_statuses.CANNOT_START
    if begin.version != __version__:
        # It would not understand the other shards.
        print(
            f"borzoi {__version__} cannot join a server that was started as {begin.version}:"
            " restart the server",
            file=sys.stderr,
        )
        return exit_statuses.CANNOT_START
    refusals = take_seat(begin.seat)
    start = start_of(begin)
    system = start.configuration.settings.system
    try:
        start_logging(system.logging, Path(system.path), f"shard-{begin.shard}")
        for refusal in refusals:
            log.warning("%s", refusal)
        return _served(start, links, sock, first_start=begin.first_start)
    except (BorzoiError, OSError) as fault:
        print(f"borzoi cannot start: {fault}", file=sys.stderr)
        return exit_statuses.CANNOT_START


def _served(start: Start, links: Links, sock: socket.socket, *, first_start: bool) -> int:
    # Imported here, so that it uses memory of our NUMA node. Imports create no garbage, so
    # collections meanwhile would find nothing.
    gc.disable()
    from borzoi.server.process import give_back_large_memory
    from borzoi.server.shard_serving import serve_shard

    gc.enable()
    give_back_large_memory()
    directory = Path(start.configuration.settings.system.path)

    async def serve() -> int:
        control = ShardControl(sock, first_start=first_start)
        while_serving(asyncio.get_running_loop(), control.ask_stop)
        # The supervisor blocked the signals until now.
        let_through()
        try:
            return await serve_shard(start, directory, links, control)
        finally:
            control.close()

    return uvloop.run(serve())


def die_with_supervisor() -> None:
    """Die with the supervisor: the next server must not meet surviving shards."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def start_of(begin: Begin) -> Start:
    """Return the start options that the supervisor sent."""
    return Start(
        Configuration(
            parsed_section(Settings, begin.settings),
            begin.source,
            begin.overrides,
            begin.warnings,
        ),
        # The supervisor has emptied the directory, once.
        fresh=False,
        default_credentials=begin.default_credentials,
        follower=begin.follower,
        environment=dict(os.environ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
