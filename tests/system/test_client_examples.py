"""The programs of `examples/` that use our own client do what they say they show."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.interpreter import run_python

from borzoi.client import Client
from borzoi.testing import Server

pytestmark = pytest.mark.system

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE_SECONDS_MAX = 120.0

SAID = {
    "produce_and_consume.py": [
        f"{number}: order {number} {{'source': 'example'}}" for number in range(3)
    ],
    "group_of_workers.py": ["200 jobs done by ada and bob"],
    "key_ordering.py": [f"{name}: 100 steps, in order: True" for name in ("ada", "bob", "eve")],
    "replay_by_time.py": ["since then: tea 3.60"],
    "exactly_once.py": ["ada pays 5", "bob pays 7"],
    "notebook_to_polars.py": ["sensor 0: 99.9", "sensor 1: 99.7", "sensor 2: 99.8"],
    "sync_script.py": [
        "['first', 'second']",
        "2010 topic_id_not_found: SendMessages: there is no such topic; create it with"
        " create_topic or ensure_topic",
    ],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server({"SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true"}) as running:
        yield running


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_shows(name: str, server: Server) -> None:
    example = EXAMPLES / name
    done = run_python(example, server.url, stdin=subprocess.DEVNULL, timeout=EXAMPLE_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines() == SAID[name]


def test_the_web_service_stores_what_it_is_told(server: Server) -> None:
    program = (
        "from fastapi.testclient import TestClient\n"
        "import fastapi_service\n"
        "with TestClient(fastapi_service.app) as web:\n"
        "    for item in ('tea', 'milk'):\n"
        "        answer = web.post('/orders', json={'customer': 'ada', 'item': item})\n"
        "        print(answer.status_code, answer.json())\n"
    )
    environment = os.environ | {"SERVER": server.url}
    done = run_python("-c", program, cwd=EXAMPLES, env=environment, timeout=EXAMPLE_SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["201 {'stored': 'tea'}", "201 {'stored': 'milk'}"]
    with Client(server.url) as client:
        stored = [m.json()["item"] for m in client.consumer("shop/web-orders", follow=False)]
    assert stored == ["tea", "milk"]


def test_type_checkers_have_no_complaint() -> None:
    names = [*SAID, "fastapi_service.py"]
    done = run_python("-m", "pyright", "--pythonpath", sys.executable, *names, cwd=EXAMPLES)
    if "0 errors" not in done.stdout:
        if "error: " not in done.stdout:
            pytest.skip(f"pyright cannot run here: {done.stdout}{done.stderr}")
        raise AssertionError(done.stdout)
