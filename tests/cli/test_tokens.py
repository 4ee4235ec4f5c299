import stat

import pytest
from tests.support.command_line import assert_said, in_formats, one_of

from borzoi.cli import home

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("form", "names"), in_formats(("create", "list", "delete"), ("c", "l", "d"))
)
def test_a_token_is_created_listed_and_deleted(borzoi, client, form, names):
    create, list_, delete = names
    made = borzoi.document("pat", create, "robot", "7days", form=form)
    listed = borzoi.document("pat", list_, form=form)
    token = made.split()[-1] if form == "table" else one_of(made, form)["token"]
    borzoi.credentials = ("-t", token)
    assert borzoi.document("me")["user_id"] == client.get_me().user_id
    borzoi.credentials = ("-u", "iggy", "-p", "iggy")
    deleted = borzoi.document("pat", delete, "robot", form=form)
    assert client.get_personal_access_tokens() == ()
    assert_said(deleted, form, "Token 'robot' was deleted.", {"deleted": "robot"})
    if form == "table":
        assert "robot" in listed
    else:
        assert [one["name"] for one in listed] == ["robot"]


def test_quiet_prints_the_token_alone(borzoi, client):
    token = borzoi.run("-q", "pat", "create", "robot").strip()
    client.delete_personal_access_token("robot")
    assert token
    assert " " not in token


def test_a_token_that_is_stored_is_used_by_its_name(borzoi):
    borzoi.run("pat", "create", "kept", "--store-token")
    borzoi.credentials = ("-n", "kept")
    assert borzoi.document("me")["user_id"] == 0
    borzoi.run("pat", "delete", "kept")
    assert "no token 'kept' is stored" in borzoi.refused(4, "me")


def test_a_token_that_expires_is_not_stored(borzoi):
    assert borzoi.invoke("pat", "create", "x", "1h", "--store-token").exit_code == 2


@pytest.mark.parametrize(("form", "names"), in_formats(("login", "logout"), ("li", "lo")))
def test_a_login_serves_later_calls_until_the_logout(borzoi, client, form, names):
    login, logout = names
    said = borzoi.document(login, form=form)
    borzoi.credentials = ()
    assert borzoi.document("me")["user_id"] == client.get_me().user_id
    assert stat.S_IMODE((borzoi.home / home.TOKENS).stat().st_mode) == 0o600
    left = borzoi.document(logout, form=form)
    address = "{}:{}".format(*borzoi.address)
    assert_said(said, form, f"Logged in at {address}.", {"address": address})
    assert_said(left, form, f"Logged out at {address}.", {"address": address})
    assert borzoi.invoke("me").exit_code == 4
    assert borzoi.invoke(logout).exit_code == 6
    assert client.get_personal_access_tokens() == ()


def test_a_session_that_ended_elsewhere_is_forgotten(borzoi, client):
    borzoi.run("login", "none")
    client.delete_personal_access_token(home.SESSION)
    borzoi.credentials = ()
    assert "has expired" in borzoi.refused(4, "me")
    assert "no credentials were given" in borzoi.invoke("me").stderr


def test_a_second_login_replaces_the_first(borzoi, client):
    borzoi.run("login")
    borzoi.run("login", "1h")
    assert [one.name for one in client.get_personal_access_tokens()] == [home.SESSION]
    borzoi.run("logout")
