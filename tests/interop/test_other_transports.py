"""The published Python client over HTTP and WebSockets, plain and with TLS."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.certificates import write_self_signed
from tests.support.interop import MESSAGING, PYTHON_PROGRAM, run_scenario
from tests.support.server import RunningServer, running_server

pytestmark = pytest.mark.interop

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
    run_scenario(server, [sys.executable, PYTHON_PROGRAM], scenario, address)


@pytest.mark.parametrize(
    ("transport", "scenario"),
    [
        *(("http", scenario) for scenario in ("calls", "polling")),
        *(("websocket", scenario) for scenario in MESSAGING),
    ],
    indirect=["transport"],
)
def test_the_python_client_gets_what_it_expects(
    server: RunningServer, transport: str, scenario: str
) -> None:
    play(server, transport, scenario)


def test_websockets_over_tls(tmp_path: Path) -> None:
    certificate, key = write_self_signed(tmp_path)
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
