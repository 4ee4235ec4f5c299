"""The published clients in Go, Java and Rust against a real server."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.interop import SCENARIOS, Program

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
CRATE = CLIENTS / "rust" / "Cargo.toml"
CRATE_BUILDS = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "borzoi-interop" / "rust-0.10.0"
BUILD_SECONDS_MAX = 600.0


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, **options
    )


def go(folder: Path) -> Program:
    """Built with the client's release that go.mod names."""
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("Go is not installed: the Go client needs the go command, 1.25 or newer")
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    fetched = run(compiler, "mod", "download", cwd=CLIENTS / "go", env=environment)
    if fetched.returncode != 0:
        pytest.skip(f"Go could not download the client: {fetched.stderr}")
    binary = folder / "scenarios"
    built = run(compiler, "build", "-o", binary, ".", cwd=CLIENTS / "go", env=environment)
    assert built.returncode == 0, built.stderr
    return [binary]


def java(folder: Path) -> Program:
    """Compiled against the client's release that pom.xml names."""
    tools = {name: shutil.which(name) for name in ("java", "javac", "mvn")}
    missing = [name for name, path in tools.items() if path is None]
    if missing:
        pytest.skip(f"{missing[0]} is not there: the Java client needs a JDK 17 and Maven")
    fetched = run(
        "mvn",
        "--quiet",
        "--batch-mode",
        "--file",
        CLIENTS / "java" / "pom.xml",
        "dependency:build-classpath",
        f"-Dmdep.outputFile={folder / 'class_path'}",
    )
    if fetched.returncode != 0:
        pytest.skip(f"Maven could not download the Java client: {fetched.stdout}")
    class_path = (folder / "class_path").read_text().strip()
    built = run("javac", "-cp", class_path, "-d", folder, CLIENTS / "java" / "Scenarios.java")
    assert built.returncode == 0, built.stderr
    return ["java", "-cp", os.pathsep.join([str(folder), class_path]), "Scenarios"]


def rust(_: Path) -> Program:
    """Its four hundred crates need a quarter of an hour or more for their first build, so the test
    does not begin it; it says how. What was built once is only brought up to date."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("Rust is not installed: the Rust client needs cargo, 1.85 or newer")
    binary = CRATE_BUILDS.expanduser() / "debug" / "scenarios"
    if not binary.exists():
        pytest.skip(
            "the Rust client is not built: cargo build --locked"
            f" --manifest-path {CRATE.relative_to(ROOT)} --target-dir {CRATE_BUILDS}"
        )
    where = ("--manifest-path", CRATE, "--target-dir", CRATE_BUILDS.expanduser())
    built = run(cargo, "build", "--quiet", "--locked", *where)
    assert built.returncode == 0, built.stderr
    return [binary]


@pytest.fixture(scope="module", params=[go, java, rust], ids=lambda build: build.__name__)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """How the scenarios are started that one of the clients plays."""
    build: Callable[[Path], Program] = request.param
    return build(tmp_path_factory.mktemp(build.__name__))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_gets_what_it_expects(
    play: Callable[..., None], program: Program, scenario: str
) -> None:
    play(program, scenario)


@pytest.mark.parametrize("program", [go, java], indirect=True, ids=lambda build: build.__name__)
def test_a_client_speaks_tls(play_over_tls: Callable[..., None], program: Program) -> None:
    play_over_tls(program, "tls")
