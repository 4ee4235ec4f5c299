"""The process of one shard: a copy of the template, which has loaded this module.

It begins with two descriptors: the connection to the supervisor, which sends everything else, and
the lock of the data directory, which stays locked until the last process has ended.
"""

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

import uvloop

from borzoi.model.errors import BorzoiError
from borzoi.server import exit_statuses
from borzoi.server.config import Configuration
from borzoi.server.control import ShardControl, SupervisorGone, begun
from borzoi.server.control_messages import Begin
from borzoi.server.declaring import parsed_section
from borzoi.server.launching import Start
from borzoi.server.logs import start_logging
from borzoi.server.parentage import die_with_parent
from borzoi.server.process import give_back_large_memory
from borzoi.server.seating import take_seat
from borzoi.server.settings import Settings
from borzoi.server.shard_serving import serve_shard
from borzoi.server.signals import let_through, while_serving
from borzoi.shard.links import Links

log = logging.getLogger(__name__)


def main(control: int, _lock: int) -> int:
    """Serve as one shard until the supervisor stops it; return the exit status."""
    sock = socket.socket(fileno=control)
    try:
        begin, links = begun(sock)
    except SupervisorGone:
        return exit_statuses.CANNOT_START
    # The next server must not meet surviving shards.
    die_with_parent()
    if os.getppid() != begin.supervisor:
        # The supervisor died before that took effect.
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
    give_back_large_memory()
    directory = Path(start.configuration.settings.system.path)

    async def serve() -> int:
        control = ShardControl(sock, first_start=first_start)
        while_serving(asyncio.get_running_loop(), control.ask_stop)
        # The template has them blocked.
        let_through()
        try:
            return await serve_shard(start, directory, links, control)
        finally:
            control.close()

    return uvloop.run(serve())


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
