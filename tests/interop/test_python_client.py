"""The published Python clients against a real server, every version with the same scenarios."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.interop import MESSAGING, PYTHON_PROGRAM, run_reconnecting
from tests.support.server import RunningServer, running_server

pytestmark = pytest.mark.interop

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 300.0


@pytest.fixture(
    scope="module",
    params=["0.8.0", pytest.param("0.7.0", marks=pytest.mark.slow)],
)
def interpreter(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str | Path:
    """A Python that can import this version of the client."""
    if request.param == "0.8.0":
        pytest.importorskip("apache_iggy", reason="apache-iggy is not there: uv sync installs it")
        return sys.executable
    uv = shutil.which("uv") or shutil.which(ROOT / ".uv" / "bin" / "uv")
    if uv is None:
        pytest.skip("uv is not there: scripts/test brings it")
    environment = tmp_path_factory.mktemp("client") / "venv"
    commands: list[list[str | Path]] = [
        ["venv", "--quiet", "--python", sys.executable, environment],
        ["pip", "install", "--quiet", "--python", environment, f"apache-iggy=={request.param}"],
    ]
    for command in commands:
        done = subprocess.run(
            [uv, *command],
            env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
        )
        if done.returncode != 0:
            pytest.skip(f"apache-iggy {request.param} could not be installed: {done.stderr}")
    return environment / "bin" / "python"


@pytest.fixture(scope="module")
def server(interpreter: str | Path) -> Iterator[RunningServer]:
    """Every version gets a server of its own, so that both may use the same names."""
    with running_server() as running:
        yield running
        assert running.stop() == 0, running.output


@pytest.mark.parametrize("scenario", ["login", *MESSAGING])
def test_the_python_client_gets_what_it_expects(
    play: Callable[..., None], interpreter: str | Path, scenario: str
) -> None:
    play([interpreter, PYTHON_PROGRAM], scenario)


def test_the_python_client_logs_in_with_a_token(
    play: Callable[..., None], token: str, interpreter: str | Path
) -> None:
    play([interpreter, PYTHON_PROGRAM], "token_login", token)


def test_the_python_client_speaks_tls(
    play_over_tls: Callable[..., None], interpreter: str | Path
) -> None:
    play_over_tls([interpreter, PYTHON_PROGRAM], "tls")


@pytest.mark.parametrize("stop", ["asked", "killed"])
def test_the_python_client_finds_the_server_again(interpreter: str | Path, stop: str) -> None:
    run_reconnecting([interpreter, PYTHON_PROGRAM], kill=stop == "killed")
