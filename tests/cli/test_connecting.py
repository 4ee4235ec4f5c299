import pytest
from tests.support.command_line import CommandLine

from borzoi.cli import home
from borzoi.cli.connecting import Connecting
from borzoi.cli.faults import CommandFailed, Exit
from borzoi.client import Password, Token


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("BORZOI_HOME", str(tmp_path))
    for name in ("BORZOI_USERNAME", "BORZOI_PASSWORD", "IGGY_USERNAME", "IGGY_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({}, "127.0.0.1:8090"),
        ({"transport": "quic"}, "127.0.0.1:8080"),
        ({"transport": "ws", "websocket_server_address": "a:1"}, "a:1"),
        ({"transport": "http", "http_api_url": "https://a:3"}, "a:3"),
        ({"server": "borzoi://u:p@b:7"}, "b:7"),
    ],
)
def test_the_address(options, address):
    assert Connecting(options).address == address


def test_the_command_line_comes_before_the_context():
    home.create_context(
        "prod", {"tcp_server_address": "prod:1", "username": "ann", "password": "x"}
    )
    home.use_context("prod")
    assert Connecting({}).address == "prod:1"
    assert Connecting({"tcp_server_address": "here:2"}).address == "here:2"
    assert Connecting({}).credentials() == Password("ann", "x")


def test_credentials_in_their_order(monkeypatch):
    with pytest.raises(CommandFailed, match="no credentials were given") as caught:
        Connecting({}).credentials()
    assert caught.value.exit_code == Exit.LOGIN_REFUSED
    monkeypatch.setenv("IGGY_USERNAME", "env")
    monkeypatch.setenv("IGGY_PASSWORD", "pw")
    assert Connecting({}).credentials() == Password("env", "pw")
    home.keep_token("127.0.0.1:8090", home.SESSION, "session")
    assert Connecting({}).credentials() == Token("session")
    assert Connecting({"username": "u", "password": "p"}).credentials() == Password("u", "p")
    assert Connecting({"username": "u", "token": "t"}).credentials() == Token("t")


def test_a_stored_token_is_found_by_its_name():
    home.keep_token("127.0.0.1:8090", "robot", "t")
    assert Connecting({"token_name": "robot"}).credentials() == Token("t")
    with pytest.raises(CommandFailed, match="no token 'absent' is stored"):
        Connecting({"token_name": "absent"}).credentials()


def test_tls_and_its_name():
    options = Connecting({"tcp_tls_enabled": True, "tcp_tls_domain": "d"}).client_options(
        log_in=False
    )
    assert options.tls is not None
    assert options.tls.domain == "d"
    assert options.credentials is None


def test_a_missing_server_is_one_sentence_and_a_hint(tmp_path):
    result = CommandLine(("127.0.0.1", 1), tmp_path).invoke("ping")
    assert result.exit_code == Exit.UNREACHABLE
    error, hint = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert hint == "Hint: start one with `borzoi serve`, or name another address"


@pytest.mark.system
def test_a_refused_login_is_one_sentence_and_a_hint(borzoi):
    borzoi.credentials = ("-u", "iggy", "-p", "wrong")
    result = borzoi.invoke("me", "-o", "json")
    assert result.exit_code == Exit.LOGIN_REFUSED
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.system
def test_the_password_comes_from_a_pipe_when_it_is_not_given(borzoi):
    borzoi.credentials = ("-u", "iggy")
    assert borzoi.invoke("me", text="iggy\n").exit_code == 0
