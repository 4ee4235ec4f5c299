"""The template of the shards, in a process of its own: it changes whose child an orphan becomes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.interpreter import run_python

ROOT = Path(__file__).parents[2]

HOST = """
import json, os, signal, socket, sys
from borzoi.server.template import Template

def copied(template, name):
    ours, theirs = socket.socketpair()
    with theirs:
        process = template.copy(name, (theirs.fileno(),))
    ours.settimeout(60)
    return process, ours, json.loads(ours.makefile().readline())

def ended(process, ours, status):
    ours.sendall(str(status).encode())
    ours.close()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

def is_there(process):
    return os.path.exists(f"/proc/{process}/exe")

def template_process():
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    words = {one: open(f"/proc/{one}/cmdline").read().split(chr(0)) for one in map(int, children)}
    return next(one for one, said in words.items() if "shard-template" in said)

def kill(process):
    os.kill(process, signal.SIGKILL)
    # It has ended, and Template does not know it yet.
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)

template = Template("tests.server.copied_program")
"""


def hosted(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run_python("-c", HOST + script, env=environment, timeout=60, **options)


def answer_of(script: str) -> Any:
    ended = hosted(script)
    assert ended.returncode == 0, ended.stderr
    return msgspec.json.decode(ended.stdout)


def test_a_copy_is_a_child_of_who_asked_for_it_and_shows_its_name() -> None:
    host, process, seen, status = answer_of("""
process, ours, seen = copied(template, "shard-7")
print(json.dumps([os.getpid(), process, seen, ended(process, ours, 42)]))
""")
    assert seen["process"] == process
    assert seen["parent"] == host
    assert seen["words"][-1] == "shard-7"
    assert "shard-template" not in seen["words"]
    assert status == 42


def test_a_copy_inherits_nothing() -> None:
    first, second = answer_of("""
import random
random.seed(1)
kept = open("/dev/zero")
copies = [copied(template, f"shard-{number}") for number in range(2)]
print(json.dumps([seen for _, _, seen in copies]))
""")
    for seen in (first, second):
        standard, opened = dict[str, str](), list[str]()
        for name, target in seen["descriptors"].items():
            if int(name) <= 2:
                standard[name] = target
            else:
                opened.append(target)
        assert standard["0"] == "/dev/null"
        # Only what was passed.
        assert len(opened) == 1
        assert opened[0].startswith("socket:")
        assert seen["threads"] == 1
        assert {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT} <= set(seen["blocked"])
        assert seen["ignored"] == [signal.SIGHUP, signal.SIGUSR1]
    assert first["random"] != second["random"]


def test_copies_run_the_same_code_at_the_same_addresses() -> None:
    """That makes them faster where they share a processor."""
    first, second, other = answer_of("""
seen = [copied(template, f"shard-{number}")[2] for number in range(2)]
seen.append(copied(Template("tests.server.copied_program"), "shard-2")[2])
print(json.dumps([one["code"] for one in seen]))
""")
    assert first == second
    assert first != other


def test_copies_do_not_need_their_template() -> None:
    left, statuses, again = answer_of("""
first = copied(template, "shard-0")
old = template_process()
kill(old)
second = copied(template, "shard-1")
new = template_process()
template.close()
left = [is_there(one) for one in (old, new, first[0], second[0])]
statuses = [ended(first[0], first[1], 3), ended(second[0], second[1], 4)]
third = copied(template, "shard-2")
print(json.dumps([left, statuses, ended(third[0], third[1], 5)]))
""")
    assert left == [False, False, True, True]
    assert statuses == [3, 4]
    assert again == 5


def test_a_template_that_was_killed_is_reported_when_another_one_starts() -> None:
    ended = hosted("""
import logging
logging.basicConfig(format="%(message)s")
copied(template, "shard-0")
kill(template_process())
copied(template, "shard-1")
""")
    expected = "the template of the shards was ended by SIGKILL; starting another one\n"
    assert (ended.returncode, ended.stderr) == (0, expected)


@pytest.mark.parametrize("program", ["no.such.module", "tests.server.refusing_program"])
def test_a_program_that_cannot_be_loaded_is_an_error_that_says_so(program: str) -> None:
    ended = hosted(f"""
try:
    Template("{program}").copy("shard-0", ())
except OSError as fault:
    print(fault)
children = open(f"/proc/self/task/{{os.getpid()}}/children").read()
assert not children, children
""")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "the template of the shards ended with status 1\n"
    assert "Traceback" in ended.stderr


def test_a_template_that_does_not_answer_is_given_up() -> None:
    said = answer_of("""
import borzoi.server.template
borzoi.server.template.ANSWER_SECONDS_MAX = 0.5
first = copied(template, "shard-0")
os.kill(template_process(), signal.SIGSTOP)
try:
    template.copy("shard-1", ())
except OSError as fault:
    said = str(fault)
second = copied(template, "shard-2")
print(json.dumps([said, ended(second[0], second[1], 6)]))
""")
    assert said == ["the template of the shards does not answer", 6]


def test_a_template_dies_with_who_started_it() -> None:
    script = (
        HOST
        + """
copied(template, "shard-0")
print(template_process(), flush=True)
signal.pause()
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        template = Path(f"/proc/{host.stdout.readline().strip()}/exe")
        assert template.exists()
        host.kill()
    until = time.monotonic() + 60
    while template.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
