"""Programs in tests/interop/clients: the scenarios they have in common, and how they are run."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.server import RunningServer, running_server

Program = Sequence[str | Path]

SCENARIOS: Final = (
    "login",
    "tokens",
    "streams",
    "topics",
    "sending",
    "polling",
    "offsets",
    "groups",
    "users",
    "permissions",
)
#: Scenarios of the Python program that need nothing but messages and their surroundings.
MESSAGING: Final = (
    "streams",
    "topics",
    "sending",
    "polling",
    "committed_offsets",
    "consuming",
    "groups",
)
PYTHON_PROGRAM: Final = (
    Path(__file__).parents[1] / "interop" / "clients" / "python" / "scenarios.py"
)
#: Longer than everything that a program itself waits for, including its start.
SCENARIO_SECONDS_MAX: Final = 300.0


def run_scenario(
    server: RunningServer, program: Program, scenario: str, address: str, *arguments: str
) -> None:
    """Run a program with the name of a scenario and the server's address; it must succeed."""
    done = subprocess.run(
        [*program, scenario, address, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SCENARIO_SECONDS_MAX,
    )
    assert done.returncode == 0, f"{done.stdout}\n-- the server:\n{server.output}"


def run_reconnecting(program: Program, *, kill: bool) -> None:
    """Restart the server below a client that is connected; the client must reconnect."""
    with running_server() as server:
        client = subprocess.Popen(
            [*program, "reconnecting", "{}:{}".format(*server.tcp_address)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert client.stdout is not None
            ready = client.stdout.readline()
            assert ready == "ready\n", ready + client.communicate(timeout=SCENARIO_SECONDS_MAX)[0]
            if kill:
                server.kill()
            else:
                assert server.stop() == 0
            server.start()
            said, _ = client.communicate("go on\n", timeout=SCENARIO_SECONDS_MAX)
            assert client.returncode == 0, f"{said}\n-- the server:\n{server.output}"
        finally:
            client.kill()
            client.wait()
