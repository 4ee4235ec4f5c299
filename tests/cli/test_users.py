import json

import pytest
from tests.support.command_line import assert_said, assert_shown, in_formats, parsed

from borzoi.cli.documents import record_of
from borzoi.client import Client

pytestmark = pytest.mark.system


@pytest.fixture
def ann(client):
    client.create_user("ann", "secret-1")
    yield "ann"
    for name in ("ann", "anna"):
        if client.get_user(name) is not None:
            client.delete_user(name)


def known(client, name):
    """The user as JSON has it: keys of permissions are text there."""
    return parsed(json.dumps(record_of(client.get_user(name))), "json")


@pytest.mark.parametrize(
    ("form", "names"),
    in_formats(("user", "create", "get", "list", "delete"), ("u", "c", "g", "l", "d")),
)
def test_a_user_is_created_described_listed_and_deleted(borzoi, client, form, names):
    group, create, get, list_, delete = names
    rights = ("-g", "r_str,poll_messages", "-s", "1:m_top#2:s_msg")
    made = borzoi.document(group, create, "bob", "secret-1", *rights, form=form)
    details = known(client, "bob")
    described = borzoi.document(group, get, "bob", form=form)
    listed = borzoi.document(group, list_, form=form)
    users = [record_of(one) for one in client.get_users()]
    deleted = borzoi.document(group, delete, "bob", form=form)
    assert client.get_user("bob") is None
    assert details["permissions"]["globally"]["read_streams"] is True
    assert_said(made, form, f"User 'bob' was created with id {details['id']}.", details)
    assert_shown(described, form, "bob", details)
    assert_shown(listed, form, "bob", users)
    assert_said(deleted, form, "User 'bob' was deleted.", {"deleted": "bob"})


@pytest.mark.parametrize(
    ("form", "names"),
    in_formats(("name", "status", "password", "permissions"), ("n", "s", "pwd", "p")),
)
def test_a_user_is_changed(borzoi, client, ann, form, names):
    name, status, password, permissions = names
    named = borzoi.document("user", name, ann, "anna", form=form)
    changed = borzoi.document("user", password, "anna", "secret-1", "secret-2", form=form)
    granted = borzoi.document("user", permissions, "anna", "-g", "m_srv", form=form)
    assert known(client, "anna")["permissions"]["globally"]["manage_servers"] is True
    host, port = borzoi.address
    with Client(f"borzoi://anna:secret-2@{host}:{port}") as hers:
        hers.get_me()
    stopped = borzoi.document("user", status, "anna", "inactive", form=form)
    assert known(client, "anna")["status"] == "inactive"
    assert_said(named, form, "User 'ann' was renamed to 'anna'.", {"username": "anna"})
    assert_said(changed, form, "The password of user 'anna' was changed.", {"changed": "anna"})
    assert_said(granted, form, "The permissions of user 'anna' were set.", {"changed": "anna"})
    assert_said(stopped, form, "User 'anna' is inactive now.", {"status": "inactive"})


def test_passwords_come_from_a_pipe_when_they_are_not_given(borzoi, client, ann):
    borzoi.run("user", "password", ann, text="secret-1\nsecret-3\n")
    borzoi.run("user", "create", "pipe", text="secret-4\n")
    client.delete_user("pipe")


def test_a_wrong_permission_is_named_before_anything_is_sent(borzoi):
    said = borzoi.refused(8, "user", "create", "x", "secret-1", "-g", "fly")
    assert "'fly' is not a global permission; allowed are manage_servers" in said


def test_a_user_without_the_permission_is_told_so(borzoi, ann):
    borzoi.credentials = ("-u", ann, "-p", "secret-1")
    said = borzoi.refused(5, "stream", "create", "mine")
    assert said.count("\n") == 2
    assert "Hint: a user with manage_users can grant it" in said
