"""Our own client plays the scenarios of the published one: the same program, in both colours."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.interop import MESSAGING, PYTHON_PROGRAM, run_reconnecting, run_scenario
from tests.support.server import RunningServer, running_server
from tests.support.transports import EVERY_TRANSPORT, SECTIONS

pytestmark = pytest.mark.interop

CLIENTS = Path(__file__).parent / "clients"


@pytest.fixture(params=["async", "sync"])
def colour(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Our client instead of the published one, for every program that is started."""
    monkeypatch.setenv("BORZOI_COLOUR", request.param)
    monkeypatch.setenv("PYTHONPATH", str(CLIENTS / "python_borzoi"))
    return str(request.param)


@pytest.fixture
def server(colour: str) -> Iterator[RunningServer]:
    """One for each scenario: both colours use the same names."""
    with running_server() as running:
        yield running
        assert running.stop() == 0, running.output


@pytest.mark.parametrize("scenario", ["login", *MESSAGING])
def test_our_client_gets_what_the_published_one_expects(
    play: Callable[..., None], scenario: str
) -> None:
    play([sys.executable, PYTHON_PROGRAM], scenario)


def test_our_client_logs_in_with_a_token(play: Callable[..., None], token: str) -> None:
    play([sys.executable, PYTHON_PROGRAM], "token_login", token)


@pytest.mark.usefixtures("colour")
def test_our_client_speaks_tls(play_over_tls: Callable[..., None]) -> None:
    play_over_tls([sys.executable, PYTHON_PROGRAM], "tls")


@pytest.mark.usefixtures("colour")
@pytest.mark.parametrize("stop", ["asked", "killed"])
def test_our_client_finds_the_server_again(stop: str) -> None:
    run_reconnecting([sys.executable, PYTHON_PROGRAM], kill=stop == "killed")


@pytest.mark.usefixtures("colour")
@pytest.mark.parametrize(
    ("transport", "scenario"),
    [
        *(("http", scenario) for scenario in ("streams", "topics", "sending", "polling")),
        *((transport, scenario) for transport in ("ws", "quic") for scenario in MESSAGING),
    ],
)
def test_our_client_gets_the_same_over_other_transports(transport: str, scenario: str) -> None:
    with running_server(EVERY_TRANSPORT) as server:
        host, port = server.addresses[SECTIONS[transport]]
        address = f"iggy+{transport}://{host}:{port}?connect_timeout=60s"
        run_scenario(server, [sys.executable, PYTHON_PROGRAM], scenario, address)
