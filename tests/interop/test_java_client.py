"""The published Java client against a real server."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.interop import SCENARIOS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SOURCE = Path(__file__).parent / "clients" / "java"
BUILD_SECONDS_MAX = 600.0

Program = list[str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """How the scenarios are started, compiled against the client's release that pom.xml names."""
    tools = {name: shutil.which(name) for name in ("java", "javac", "mvn")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        pytest.skip(f"{missing[0]} is not there: the Java client needs a JDK 17 and Maven")
    folder = tmp_path_factory.mktemp("java")

    def run(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [tool, *arguments],
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
        )

    fetched = run(
        "mvn",
        "--quiet",
        "--batch-mode",
        "--file",
        SOURCE / "pom.xml",
        "dependency:build-classpath",
        f"-Dmdep.outputFile={folder / 'class_path'}",
    )
    if fetched.returncode != 0:
        pytest.skip(f"Maven could not download the Java client: {fetched.stdout}")
    class_path = (folder / "class_path").read_text().strip()
    built = run("javac", "-cp", class_path, "-d", folder, SOURCE / "Scenarios.java")
    assert built.returncode == 0, built.stderr
    return ["java", "-cp", os.pathsep.join([str(folder), class_path]), "Scenarios"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_java_client_gets_what_it_expects(
    play: Callable[..., None], program: Program, scenario: str
) -> None:
    play(program, scenario)


def test_the_java_client_speaks_tls(play_over_tls: Callable[..., None], program: Program) -> None:
    play_over_tls(program, "tls")
