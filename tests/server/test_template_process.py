"""Parts of the template that need no copies; `test_template.py` makes some."""

import errno
import os

import pytest
from tests.support.interpreter import run_python

from borzoi.server.control_messages import control_pair, receive, send
from borzoi.server.template_process import _copied, decode_copied

SHOWN = """
import sys
from borzoi.server.template_process import show_name
show_name(b"shard-12")
print(open("/proc/self/cmdline").read().split(chr(0)))
"""


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        ("shard-template", ["first", "shard-12", *[""] * 7]),
        # Not ours to overwrite.
        ("shard-somebody", ["first", "shard-somebody", ""]),
        ("x", ["first", "x", ""]),
    ],
)
def test_the_name_takes_the_place_of_the_last_argument(last: str, shown: list[str]) -> None:
    ended = run_python("-c", SHOWN, "first", last, timeout=60)
    assert ended.stdout.endswith(f"{shown}\n".removeprefix("[")), ended.stdout


def test_a_system_that_cannot_fork_is_reported_and_nothing_is_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refused)
    ours, theirs = control_pair()
    source, sink = os.pipe()
    with ours, theirs:
        send(ours, b"shard-0", (sink,))
        os.close(sink)
        ours.shutdown(1)
        before = len(os.listdir("/proc/self/fd"))
        assert _copied(theirs) == []
        assert len(os.listdir("/proc/self/fd")) == before
        packet, _ = receive(ours)
    # The descriptor that came with the request is closed.
    assert os.read(source, 1) == b""
    os.close(source)
    with pytest.raises(BlockingIOError, match="cannot copy the template of the shards: Resource"):
        decode_copied(packet)
