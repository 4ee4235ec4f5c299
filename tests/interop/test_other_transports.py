"""The published Python client over HTTP and WebSockets, plain and with TLS."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.server import RunningServer, running_server

from borzoi.security.certificates import self_signed

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).parent / "clients" / "python" / "scenarios.py"
SCENARIO_SECONDS_MAX = 300.0
TRANSPORTS = {"http": "iggy+http", "websocket": "iggy+ws"}

pytest.importorskip("apache_iggy", reason="apache-iggy is not there: uv sync installs it")


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def server(transport: str) -> Iterator[RunningServer]:
    name = transport.upper()
    with running_server({f"{name}_ENABLED": "true", f"{name}_ADDRESS": "127.0.0.1:0"}) as running:
        yield running
        assert running.stop() == 0, running.output


def play(server: RunningServer, transport: str, scenario: str, options: str = "") -> None:
    host, port = server.addresses[transport]
    address = f"{TRANSPORTS[transport]}://{host}:{port}{options}"
    done = subprocess.run(
        [sys.executable, PROGRAM, scenario, address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SCENARIO_SECONDS_MAX,
    )
    assert done.returncode == 0, f"{done.stdout}\n-- the server:\n{server.output}"


@pytest.mark.parametrize(
    ("transport", "scenario"),
    [
        *(("http", scenario) for scenario in ("calls", "polling")),
        *(
            ("websocket", scenario)
            for scenario in (
                "streams",
                "topics",
                "sending",
                "polling",
                "committed_offsets",
                "consuming",
                "groups",
            )
        ),
    ],
    indirect=["transport"],
)
def test_the_python_client_gets_what_it_expects(
    server: RunningServer, transport: str, scenario: str
) -> None:
    play(server, transport, scenario)


def test_websockets_over_tls(tmp_path: Path) -> None:
    pair = self_signed("localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    settings = {
        "WEBSOCKET_ENABLED": "true",
        "WEBSOCKET_ADDRESS": "127.0.0.1:0",
        "WEBSOCKET_TLS_ENABLED": "true",
        "WEBSOCKET_TLS_CERT_FILE": str(certificate),
        "WEBSOCKET_TLS_KEY_FILE": str(key),
    }
    with running_server(settings) as server:
        options = f"?tls=true&tls_domain=localhost&tls_ca_file={certificate}"
        play(server, "websocket", "streams", options)
