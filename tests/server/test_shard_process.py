import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import msgspec
from tests.server.test_control_messages import BEGIN
from tests.support.interpreter import run_python

from borzoi.server import exit_statuses
from borzoi.server.control_messages import control_pair, encode, send
from borzoi.server.settings import Settings
from borzoi.server.shard_process import start_of

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(3600)
"""
CHILD = """
import time
from borzoi.server.shard_process import die_with_supervisor
die_with_supervisor()
print("ready", flush=True)
time.sleep(3600)
"""


def test_a_shard_starts_with_what_the_server_was_started_with() -> None:
    start = start_of(BEGIN)
    assert start.configuration.settings == Settings()
    assert start.configuration.overrides == BEGIN.overrides
    assert start.configuration.warnings == BEGIN.warnings
    assert start.configuration.origin == "the built-in defaults and 1 variable"
    assert start.default_credentials
    assert not start.fresh, "the supervisor has emptied the directory before"


def status_of(control: socket.socket, lock: IO[str], name: str, folder: Path) -> int:
    """How the process of a shard ends by itself."""
    given = (control.fileno(), lock.fileno())
    program = ("-m", "borzoi.server.shard_process", *map(str, given), name)
    return run_python(*program, pass_fds=given, cwd=folder, timeout=60).returncode


def test_a_process_without_a_supervisor_ends(tmp_path: Path) -> None:
    ours, theirs = control_pair()
    with theirs, (tmp_path / "lock").open("w") as lock:
        ours.close()
        assert status_of(theirs, lock, "shard-0", tmp_path) == exit_statuses.CANNOT_START


def test_a_process_whose_supervisor_died_before_it_could_notice_ends(tmp_path: Path) -> None:
    ours, theirs = control_pair()
    with ours, theirs, (tmp_path / "lock").open("w") as lock:
        alone = msgspec.structs.replace(BEGIN, peers=0, supervisor=os.getppid())
        arena = os.memfd_create("arena")
        send(ours, encode(alone), (arena,))
        os.close(arena)
        assert status_of(theirs, lock, "shard-1", tmp_path) == exit_statuses.CANNOT_START
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_process_dies_with_its_supervisor() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while is_running(child):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
