"""The programs of `examples/` that use the published client do what they say they show."""

import subprocess
from pathlib import Path

import pytest
from tests.support.interpreter import run_python
from tests.support.server import RunningServer
from tests.system.test_client_examples import SAID

pytestmark = pytest.mark.interop

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE_SECONDS_MAX = 300.0


@pytest.fixture(autouse=True)
def client() -> None:
    pytest.importorskip("apache_iggy", reason="apache-iggy is not there: uv sync installs it")


def said_by(name: str, server: RunningServer) -> list[str]:
    """The lines that an example writes; it must end well."""
    host, port = server.tcp_address
    done = run_python(
        EXAMPLES / name,
        f"{host}:{port}",
        stdin=subprocess.DEVNULL,
        timeout=EXAMPLE_SECONDS_MAX,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n-- the server:\n{server.output}"
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_getting_started_goes_on_where_it_stopped(server: RunningServer) -> None:
    for run in range(3):
        sent, *read = said_by("getting_started.py", server)
        assert sent == "sent 10 messages"
        assert read == [f"offset {10 * run + number}: hello {number}" for number in range(10)]


def test_the_members_of_a_group_share_the_partitions(server: RunningServer) -> None:
    for _ in range(2):
        *members, sum_of_all = said_by("consumer_group.py", server)
        shares = sorted(line.partition(" read ")[2] for line in members)
        assert shares == ["partitions [0, 1]", "partitions [2, 3]"]
        assert sum_of_all == "100 orders sent, 100 of them read"


def test_a_user_may_do_what_it_may_and_a_token_is_good_until_it_is_deleted(
    server: RunningServer,
) -> None:
    for _ in range(2):
        made, read, refused, deleted = said_by("users_and_tokens.py", server)
        assert made.startswith("reader has a token that is good for an hour")
        assert read == "reader reads: for your eyes only"
        assert refused == "reader may not send: Unauthorized"
        assert deleted.startswith("the deleted token opens nothing: ")


def test_every_example_is_listed_and_run() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    ours = {"getting_started.py", "consumer_group.py", "users_and_tokens.py"}
    assert programs == ours | set(SAID) | {"fastapi_service.py"}
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]({name})" in listed for name in programs)
