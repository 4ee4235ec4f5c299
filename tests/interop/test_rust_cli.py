"""The published command line client, a command line over the Rust client, against a real server.

Cargo needs a quarter of an hour or more to build it, so the test does not; it says how.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.server import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RELEASE = "0.13.0"
FOLDER = (
    Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "borzoi-interop" / f"iggy-cli-{RELEASE}"
)
COMMAND_SECONDS_MAX = 60.0

Cli = Callable[..., str]


class Refused(Exception):
    """The command ended with an error; this is what it said."""


@pytest.fixture(scope="module")
def program() -> Path:
    binary = FOLDER.expanduser() / "bin" / "iggy"
    if not binary.exists():
        if shutil.which("cargo") is None:
            pytest.skip("Rust is not there: the command line client needs cargo to be built")
        pytest.skip(
            "the command line client is not built:"
            f" cargo install iggy-cli --version {RELEASE} --locked --root {FOLDER}"
        )
    return binary


@pytest.fixture
def iggy(program: Path, server: RunningServer, tmp_path: Path) -> Cli:
    """Run one command as root, or with other credentials; what it printed."""

    def run(*arguments: object, credentials: tuple[str, ...] = ("-u", "iggy", "-p", "iggy")) -> str:
        host, port = server.tcp_address
        done = subprocess.run(
            [
                program,
                *("--transport", "tcp", "--tcp-server-address", f"{host}:{port}"),
                *credentials,
                *map(str, arguments),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            # Whatever the user of this machine keeps for the client is not ours to use.
            env=os.environ | {"HOME": str(tmp_path)},
        )
        if done.returncode != 0:
            raise Refused(done.stdout + done.stderr)
        return done.stdout + done.stderr

    return run


def cells(printed: str) -> list[list[str]]:
    """The rows of the tables that were printed."""
    rows = [re.split(r"\s*[|│┆]\s*", line)[1:-1] for line in printed.splitlines()]
    return [row for row in rows if row]


def properties(printed: str) -> dict[str, str]:
    return {row[0]: row[1] for row in cells(printed) if len(row) == 2}


def payloads(printed: str) -> list[str]:
    return [row[-1] for row in cells(printed)[1:] if row[0].isdigit()]


def test_it_logs_in_with_a_password_and_with_a_token(iggy: Cli) -> None:
    assert "Ping" in iggy("ping", "--count", 1, credentials=())
    assert properties(iggy("me"))["Transport"] == "TCP"
    with pytest.raises(Refused, match="Problem"):
        iggy("me", credentials=("-u", "iggy", "-p", "wrong"))
    token = iggy("--quiet", "pat", "create", "cli-token").split()[-1]
    assert "cli-token" in iggy("pat", "list")
    assert properties(iggy("me", credentials=("--token", token)))["Transport"] == "TCP"
    iggy("pat", "delete", "cli-token")
    with pytest.raises(Refused, match="Problem"):
        iggy("me", credentials=("--token", token))
    assert "Server PID" in iggy("stats")
    iggy("client", "list")
    iggy("cluster", "metadata")


def test_it_manages_streams_and_topics(iggy: Cli) -> None:
    iggy("stream", "create", "cli-streams")
    with pytest.raises(Refused, match="already exists"):
        iggy("stream", "create", "cli-streams")
    iggy("stream", "update", "cli-streams", "cli-renamed")
    assert properties(iggy("stream", "get", "cli-renamed"))["Stream name"] == "cli-renamed"
    iggy("topic", "create", "cli-renamed", "hourly", 3, "gzip", "1hour", "--max-topic-size", "2GiB")
    topic = properties(iggy("topic", "get", "cli-renamed", "hourly"))
    assert topic["Partitions count"] == "3"
    assert topic["Compression"] == "gzip"
    assert "1h" in topic["Message expiry"]
    with pytest.raises(Refused, match="already exists"):
        iggy("topic", "create", "cli-renamed", "hourly", 1, "none")
    iggy("partition", "create", "cli-renamed", "hourly", 2)
    iggy("partition", "delete", "cli-renamed", "hourly", 4)
    assert properties(iggy("topic", "get", "cli-renamed", "hourly"))["Partitions count"] == "1"
    iggy("topic", "update", "cli-renamed", "hourly", "daily", "none")
    assert "daily" in iggy("topic", "list", "cli-renamed")
    iggy("topic", "delete", "cli-renamed", "daily")
    assert properties(iggy("stream", "get", "cli-renamed"))["Stream topics count"] == "0"
    iggy("stream", "delete", "cli-renamed")
    assert "not found" in iggy("stream", "get", "cli-renamed")


def test_it_sends_and_polls(iggy: Cli) -> None:
    where = ("cli-messages", "events")
    iggy("stream", "create", where[0])
    iggy("topic", "create", *where, 3, "none")
    for number in range(3):
        iggy("message", "send", *where, f"balanced {number}")
    iggy("message", "send", *where, "--partition-id", 1, *(f"named {n}" for n in range(5)))
    iggy("message", "send", *where, "--message-key", "customer 17", "keyed")
    iggy("message", "send", *where, "--message-key", "customer 17", "keyed")
    found = [
        payloads(iggy("message", "poll", *where, partition, "--first", "--message-count", 100))
        for partition in range(3)
    ]
    assert sum(map(len, found)) == 10
    assert [sum(text.startswith("named") for text in partition) for partition in found] == [0, 5, 0]
    if "BORZOI_TEST_SHARDS" not in os.environ:  # each shard takes its own turns
        spread = [sum(text.startswith("balanced") for text in partition) for partition in found]
        assert spread == [1, 1, 1]
    assert sum(partition.count("keyed") for partition in found) == 2
    assert 2 in [partition.count("keyed") for partition in found]

    def poll(*how: object) -> list[str]:
        return payloads(iggy("message", "poll", *where, 1, "--message-count", 2, *how))

    assert poll("--offset", found[1].index("named 0")) == ["named 0", "named 1"]
    assert poll("--first") == found[1][:2]
    assert poll("--last") == found[1][-2:]
    assert poll("--next", "--auto-commit") == found[1][:2]
    assert poll("--next", "--auto-commit") == found[1][2:4]
    iggy("message", "flush", *where, 1, "--fsync")
    iggy("topic", "purge", *where)
    assert poll("--first") == []


def test_it_keeps_offsets_and_groups(iggy: Cli) -> None:
    where = ("cli-groups", "events")
    iggy("stream", "create", where[0])
    iggy("topic", "create", *where, 1, "none")
    iggy("message", "send", *where, "--partition-id", 0, "a", "b", "c", "d")
    assert "not found" in iggy("consumer-offset", "get", "reader", *where, 0)
    iggy("consumer-offset", "set", "reader", *where, 0, 2)
    stored = properties(iggy("consumer-offset", "get", "reader", *where, 0))
    assert (stored["Stored offset"], stored["Current offset"]) == ("2", "3")
    with pytest.raises(Refused, match="Problem"):
        iggy("consumer-offset", "set", "reader", *where, 0, 9)
    polled = iggy("message", "poll", *where, 0, "--next", "--consumer", "reader")
    assert payloads(polled) == ["d"]

    iggy("consumer-group", "create", *where, "workers")
    with pytest.raises(Refused, match="already exists"):
        iggy("consumer-group", "create", *where, "workers")
    assert "workers" in iggy("consumer-group", "list", *where)
    assert properties(iggy("consumer-group", "get", *where, "workers"))["Members count"] == "0"
    iggy("consumer-group", "delete", *where, "workers")
    assert "workers" not in iggy("consumer-group", "list", *where)


def test_it_manages_users_and_permissions(iggy: Cli) -> None:
    iggy("stream", "create", "cli-users")
    number = properties(iggy("stream", "get", "cli-users"))["Stream ID"]
    iggy("topic", "create", "cli-users", "events", 1, "none")
    allowed = ("--global-permissions", "read_servers", "--stream-permissions")
    iggy("user", "create", "ferris", "secret", *allowed, f"{number}:read_stream,poll_messages")
    ferris = ("-u", "ferris", "-p", "secret")
    assert "Server PID" in iggy("stats", credentials=ferris)
    iggy("message", "poll", "cli-users", "events", 0, "--first", credentials=ferris)
    send = ("message", "send", "cli-users", "events", "--partition-id", 0, "text")
    with pytest.raises(Refused, match="nauthorized"):
        iggy(*send, credentials=ferris)
    iggy("user", "permissions", "ferris", "--stream-permissions", f"{number}:send_messages")
    iggy(*send, credentials=ferris)
    assert "ferris" in iggy("user", "list")
    iggy("user", "name", "ferris", "crab")
    iggy("user", "password", "crab", "secret", "hidden")
    iggy(*send, credentials=("-u", "crab", "-p", "hidden"))
    iggy("user", "status", "crab", "inactive")
    assert properties(iggy("user", "get", "crab"))["Status"] == "inactive"
    with pytest.raises(Refused, match="Problem"):
        iggy(*send, credentials=("-u", "crab", "-p", "hidden"))
    iggy("user", "delete", "crab")
    assert "crab" not in iggy("user", "list")
