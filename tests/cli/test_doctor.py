import resource

import pytest
from tests.support.command_line import FORMATS

from borzoi.cli.doctor import (
    CLOCK_SECONDS_MAX,
    DESCRIPTORS_MIN,
    CheckState,
    accelerator,
    clock,
    configuration,
    data_directory,
    descriptors,
    disk,
    processors,
    versions,
)


def test_versions_are_there():
    verdict = versions()
    assert verdict.state is CheckState.OK
    assert "numpy" in verdict.found


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        ((1024, DESCRIPTORS_MIN - 1), CheckState.WARNING),
        ((1024, DESCRIPTORS_MIN), CheckState.OK),
        ((1024, resource.RLIM_INFINITY), CheckState.OK),
    ],
)
def test_open_files(limits, state):
    assert descriptors(limits).state is state


@pytest.mark.parametrize(
    ("theirs", "state"), [(0.0, CheckState.OK), (CLOCK_SECONDS_MAX + 0.1, CheckState.WARNING)]
)
def test_clocks(theirs, state):
    assert clock(theirs, 0.0).state is state
    assert clock(0.0, theirs).state is state


def test_room_where_the_data_would_lie(tmp_path, monkeypatch):
    assert str(tmp_path) in disk(tmp_path / "not" / "yet").found
    monkeypatch.setattr("borzoi.cli.doctor.FREE_DISK_MIN", 1 << 80)
    assert disk(tmp_path).state is CheckState.WARNING
    monkeypatch.setenv("BORZOI_SYSTEM_PATH", "/somewhere")
    assert str(data_directory()) == "/somewhere"


def test_a_wrong_setting_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BORZOI_SYSTEM_PATH", str(tmp_path / "data"))
    assert configuration().state is CheckState.OK
    monkeypatch.setenv("BORZOI_TCP_ADDRESS", "nowhere")
    assert configuration().state is CheckState.PROBLEM


def test_the_rest_has_something_to_say():
    assert processors().state is CheckState.OK
    assert accelerator().check == "accelerator"


@pytest.mark.system
@pytest.mark.parametrize("form", FORMATS)
def test_a_server_that_works_is_healthy(borzoi, form, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    said = borzoi.document("doctor", form=form)
    checks = ("versions", "configuration", "disk", "open files", "server", "login", "clock")
    if form == "table":
        assert all(check in said for check in ("Check", "State", "Found", *checks))
        assert "CheckState" not in said
    else:
        states = {one["check"]: one["state"] for one in said}
        assert states.keys() >= set(checks)
        assert states["server"] == states["login"] == states["clock"] == "ok"


@pytest.mark.system
def test_wrong_credentials_are_a_problem_and_a_server_that_is_not_there_a_warning(borzoi):
    borzoi.credentials = ("-u", "iggy", "-p", "wrong")
    result = borzoi.invoke("doctor", "-l", "list")
    assert result.exit_code == 1
    assert "login|problem" in result.stdout
    borzoi.address = ("127.0.0.1", 1)
    assert "server|warning" in borzoi.invoke("doctor", "-l", "list").stdout
