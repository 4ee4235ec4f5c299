"""The fixtures as a test suite of a user gets them: in a pytest of its own, not configured."""

import subprocess
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

pytestmark = pytest.mark.system

SUITE = """
import pytest
from borzoi.client import AsyncClient

@pytest.mark.parametrize("turn", range(3))
def test_each_test_finds_it_empty(borzoi, turn):
    assert borzoi.get_streams() == ()
    borzoi.ensure_topic("orders/events")
    borzoi.send_messages("orders/events", ["a"], partition=0)
    assert len(borzoi.poll_messages("orders/events", partition=0, start=0)) == 1

async def test_an_asynchronous_test_connects_by_itself(borzoi_server):
    async with AsyncClient(borzoi_server.url) as client:
        assert await client.get_streams() == ()

def test_a_test_may_kill_the_server(borzoi, borzoi_server):
    borzoi.create_stream("survives")
    borzoi_server.kill()

def test_the_next_one_finds_it_running(borzoi):
    assert borzoi.get_streams() == ()

def test_a_test_may_pause_the_server(borzoi_server):
    borzoi_server.pause()

def test_and_the_next_one_finds_it_awake(borzoi):
    borzoi.ping()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    return run_python(*command, cwd=folder, timeout=300)


def test_the_fixtures_are_there_without_configuration(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(SUITE)
    done = run(tmp_path, "-o", "asyncio_mode=auto")
    assert "8 passed" in done.stdout, done.stdout + done.stderr


def test_a_suite_that_does_not_use_them_does_not_load_us(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    loaded = {name for name in sys.modules if name.startswith('borzoi')}\n"
        "    assert loaded == {'borzoi', 'borzoi.pytest_plugin'}\n"
    )
    done = run(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
