"""The published Go client against a real server."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.interop import SCENARIOS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SOURCE = Path(__file__).parent / "clients" / "go"
BUILD_SECONDS_MAX = 600.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenarios, built with the client's release that go.mod names."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed: the Go client needs the go command, 1.25 or newer")
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [go, *arguments],
            cwd=SOURCE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
        )

    fetched = run("mod", "download")
    if fetched.returncode != 0:
        pytest.skip(f"Go could not download the client: {fetched.stderr}")
    binary = tmp_path_factory.mktemp("go") / "scenarios"
    built = run("build", "-o", binary, ".")
    assert built.returncode == 0, built.stderr
    return binary


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_go_client_gets_what_it_expects(
    play: Callable[..., None], program: Path, scenario: str
) -> None:
    play([program], scenario)


def test_the_go_client_speaks_tls(play_over_tls: Callable[..., None], program: Path) -> None:
    play_over_tls([program], "tls")
