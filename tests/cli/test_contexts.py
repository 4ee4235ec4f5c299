import pytest
from tests.support.command_line import CommandLine, assert_said, assert_shown, in_formats


@pytest.fixture
def offline(tmp_path):
    """Contexts are files here; no server is asked."""
    return CommandLine(("127.0.0.1", 1), tmp_path, credentials=())


@pytest.mark.parametrize(
    ("form", "names"),
    in_formats(("context", "create", "use", "list", "delete"), ("ctx", "c", "u", "l", "d")),
)
def test_a_context_is_created_used_listed_and_deleted(offline, form, names):
    group, create, use, list_, delete = names
    made = offline.document(group, create, "prod", "--transport", "tcp", "-u", "ann", form=form)
    used = offline.document(group, use, "prod", form=form)
    listed = offline.document(group, list_, form=form)
    deleted = offline.document(group, delete, "prod", form=form)
    assert_said(made, form, "Context 'prod' was created.", {"created": "prod"})
    assert_said(used, form, "Context 'prod' is in use.", {"active": "prod"})
    assert_said(deleted, form, "Context 'prod' was deleted.", {"deleted": "prod"})
    default = {"name": "default", "active": False, "transport": None, "username": None}
    prod = {"name": "prod", "active": True, "transport": "tcp", "username": "ann"}
    assert_shown(listed, form, "prod*", [default, prod])
    assert offline.document("context", "list")[0]["active"] is True


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("use", "absent"), 6),
        (("delete", "absent"), 6),
        (("delete", "default"), 8),
        (("create", "default"), 7),
        (("create", "a b"), 8),
    ],
)
def test_wrong_names_have_their_exit_codes(offline, arguments, code):
    assert offline.invoke("context", *arguments).exit_code == code


@pytest.mark.system
def test_a_context_says_where_the_server_is_and_who_asks(server, tmp_path):
    host, port = server.tcp_address
    command = CommandLine(("127.0.0.1", 1), tmp_path, credentials=())
    where = ("--tcp-server-address", f"{host}:{port}", "-u", "iggy", "-p", "iggy")
    command.run("context", "create", "here", *where)
    command.run("context", "use", "here")
    command.address = server.tcp_address
    assert command.document("me")["user_id"] == 0
