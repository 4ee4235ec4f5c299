import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from tests.server.test_control_messages import BEGIN
from tests.support.interpreter import run_python

from borzoi.server import exit_statuses
from borzoi.server.control_messages import Begin, control_pair, encode, send
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


@contextmanager
def told(begin: Begin) -> Iterator[socket.socket]:
    """The connection of a shard that has no others, with its first message."""
    ours, theirs = control_pair()
    with ours, theirs:
        arena = os.memfd_create("arena")
        send(ours, encode(msgspec.structs.replace(begin, peers=0)), (arena,))
        os.close(arena)
        yield theirs


def refusal_of(control: socket.socket, folder: Path) -> str:
    """What the process of a shard says when it cannot start."""
    with (folder / "lock").open("w") as lock:
        given = (control.fileno(), lock.fileno())
        program = ("-m", "borzoi.server.shard_process", *map(str, given), "shard-1")
        ended = run_python(*program, pass_fds=given, cwd=folder, timeout=60)
    assert ended.returncode == exit_statuses.CANNOT_START
    assert [path.name for path in folder.iterdir()] == ["lock"]
    return ended.stderr


def test_a_process_without_a_supervisor_ends(tmp_path: Path) -> None:
    ours, theirs = control_pair()
    with theirs:
        ours.close()
        assert refusal_of(theirs, tmp_path) == ""


def test_a_process_whose_supervisor_died_before_it_could_notice_ends(tmp_path: Path) -> None:
    with told(msgspec.structs.replace(BEGIN, supervisor=os.getppid())) as control:
        assert refusal_of(control, tmp_path) == ""


def test_a_process_does_not_join_shards_of_another_version(tmp_path: Path) -> None:
    begin = msgspec.structs.replace(BEGIN, supervisor=os.getpid(), version="0.0.7")
    with told(begin) as control:
        said = refusal_of(control, tmp_path)
    assert said.endswith("cannot join a server that was started as 0.0.7: restart the server\n")


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
