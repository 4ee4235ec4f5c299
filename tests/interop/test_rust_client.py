"""The published Rust client against a real server.

Its four hundred crates need a quarter of an hour or more for their first build, so the test does
not begin it; it says how. What was built once is only brought up to date.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.interop import SCENARIOS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MANIFEST = Path(__file__).parent / "clients" / "rust" / "Cargo.toml"
FOLDER = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "borzoi-interop" / "rust-0.10.0"
BUILD_SECONDS_MAX = 600.0


@pytest.fixture(scope="module")
def program() -> Path:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("Rust is not installed: the Rust client needs cargo, 1.85 or newer")
    binary = FOLDER.expanduser() / "debug" / "scenarios"
    if not binary.exists():
        pytest.skip(
            "the Rust client is not built: cargo build --locked"
            f" --manifest-path {MANIFEST.relative_to(ROOT)} --target-dir {FOLDER}"
        )
    where = ("--manifest-path", str(MANIFEST), "--target-dir", str(FOLDER.expanduser()))
    built = subprocess.run(
        [cargo, "build", "--quiet", "--locked", *where],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
    )
    assert built.returncode == 0, built.stderr
    return binary


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_rust_client_gets_what_it_expects(
    play: Callable[..., None], program: Path, scenario: str
) -> None:
    play([program], scenario)
