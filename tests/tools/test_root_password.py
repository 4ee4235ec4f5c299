import os
import subprocess
from pathlib import Path

import pytest
from tests.support.interpreter import run_python
from tests.support.server import running_server
from tests.support.wire_client import WireClient

from borzoi.model.errors import BorzoiError, InvalidConfiguration, InvalidCredentials
from borzoi.model.users import UserStatus
from borzoi.protocol.commands.users import CreateUser
from borzoi.server.data_directory import DataDirectory, DirectoryInUse
from borzoi.tools.root_password import reset


def command(directory: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if "ROOT" not in name}
    arguments = ("-m", "borzoi", "reset-root-password", directory)
    return run_python(*arguments, env=environment | variables)


@pytest.mark.system
def test_a_lost_password_of_root_is_replaced_while_the_server_is_stopped() -> None:
    with running_server() as server:
        with WireClient(server.tcp_address) as client:
            client.login()
            client.call(CreateUser("bob", "secret", UserStatus.ACTIVE, None))
        refused = command(server.directory)
        assert refused.returncode == 2
        assert "in use by another server" in refused.stderr
        assert server.stop() == 0
        given = command(server.directory, BORZOI_ROOT_PASSWORD="better")
        assert given.returncode == 0, given.stderr
        assert "better" not in given.stdout
        server.start()
        with WireClient(server.tcp_address) as client:
            with pytest.raises(InvalidCredentials):
                client.login("iggy", "iggy")
            client.login("iggy", "better")
            client.login("bob", "secret")
        assert server.stop() == 0
        drawn = command(server.directory)
        assert drawn.returncode == 0, drawn.stderr
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login("iggy", drawn.stdout.splitlines()[0].split()[-1])
        assert server.stop() == 0


def test_what_is_no_data_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="not a data directory"):
        reset(tmp_path, environment={}, cipher=None, tell=print)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_root_and_a_bad_password_are_refused(tmp_path: Path) -> None:
    (tmp_path / "state.messages").touch()
    with pytest.raises(InvalidConfiguration, match="has no root user yet"):
        reset(tmp_path, environment={}, cipher=None, tell=print)
    with pytest.raises(InvalidConfiguration, match="BORZOI_ROOT_PASSWORD"):
        reset(tmp_path, environment={"IGGY_ROOT_PASSWORD": "x"}, cipher=None, tell=print)
    with DataDirectory(tmp_path), pytest.raises(DirectoryInUse):
        reset(tmp_path, environment={}, cipher=None, tell=print)


@pytest.mark.system
def test_a_password_that_cannot_be_printed_is_not_stored() -> None:
    """The same promise as at a first start: a password that was not shown is not in force."""

    def full(_: str) -> None:
        raise BorzoiError("the disk is full")

    with running_server() as server:
        assert server.stop() == 0
        with pytest.raises(BorzoiError, match="full"):
            reset(server.directory, environment={}, cipher=None, tell=full)
        server.start()
        with WireClient(server.tcp_address) as client:
            client.login()
        assert server.stop() == 0
