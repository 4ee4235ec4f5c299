"""The QUIC stack of a published client: of 0.9, in an environment of its own. Python clients of 0.8
fail before they have sent a packet."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.server import running_server
from tests.support.wire_client import WireClient

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "clients" / "python" / "quic_handshake.py"
SECONDS_MAX = 120.0


@pytest.fixture(scope="module")
def python() -> list[str]:
    """A Python with that client."""
    uv = shutil.which("uv") or shutil.which(ROOT / ".uv" / "bin" / "uv")
    if uv is None:
        pytest.skip("uv is not there: scripts/test brings it")
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with", "apache-iggy==0.9.0", "python"]
    ready = subprocess.run(
        [*command, "-c", "import apache_iggy"], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    if ready.returncode:
        pytest.skip(f"apache-iggy 0.9.0 is not to be had: {ready.stderr.strip()[-200:]}")
    return command


def test_the_stack_of_a_published_client_finishes_its_handshake(python: list[str]) -> None:
    with running_server({"QUIC_ENABLED": "true", "QUIC_ADDRESS": "127.0.0.1:0"}) as server:
        address = "iggy+quic://iggy:iggy@{}:{}".format(*server.addresses["quic"])
        said = subprocess.run(
            [*python, PROGRAM, address], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        assert said.returncode == 0, said.stderr
        # A client without a server would keep retrying; this is the end of an answered stream.
        assert said.stdout == "Empty response\n"
        with WireClient(server.tcp_address) as client:
            client.login()
        assert server.stop() == 0, server.output
