import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

from borzoi.server.parentage import PR_SET_PDEATHSIG, _request

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(3600)
"""
CHILD = """
import time
from borzoi.server.parentage import die_with_parent
die_with_parent()
print("ready", flush=True)
time.sleep(3600)
"""
#: A process, a child that ends, and a child of that which tells its first and last parent.
GENERATIONS = """
import os, sys
from borzoi.server.parentage import adopt_grandchildren
if sys.argv[1] == "adopt":
    adopt_grandchildren()
source, sink = os.pipe()
between = os.fork()
if not between:
    first = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == first:
        pass
    os.write(sink, str(os.getppid()).encode())
    os._exit(0)
os.waitpid(between, 0)
print(int(os.read(source, 16)) == os.getpid())
"""


def test_a_process_dies_with_its_parent() -> None:
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


@pytest.mark.parametrize(("how", "is_ours"), [("adopt", "True\n"), ("leave", "False\n")])
def test_a_grandchild_is_adopted(how: str, is_ours: str) -> None:
    ended = run_python("-c", GENERATIONS, how, timeout=60)
    assert (ended.stdout, ended.stderr) == (is_ours, "")


def test_what_the_kernel_refuses_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        _request(PR_SET_PDEATHSIG, 1000)
