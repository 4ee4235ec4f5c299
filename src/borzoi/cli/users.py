"""``borzoi user``: accounts and what they may do."""

import sys

import click

from borzoi.cli.answering import add_change, add_get, add_list, identified
from borzoi.cli.connecting import connected
from borzoi.cli.documents import record_of
from borzoi.cli.faults import reported
from borzoi.cli.names import IDENTIFIER
from borzoi.cli.output import chosen, done, format_option
from borzoi.cli.permissions import permissions_of
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.identifiers import Identifier
from borzoi.model.users import UserStatus

COLUMNS = {"id": "ID", "created_at": "Created", "status": "Status", "username": "Username"}
USER = identified("user")
STATUS = click.Choice([one.name.lower() for one in UserStatus])
GLOBAL = click.option(
    "-g", "--global-permissions", "globally", help="Such as read_streams,poll_messages."
)
STREAMS = click.option(
    "-s", "--stream-permissions", "streams", multiple=True, help="Such as 1:read_stream#2:p_msg."
)


@command_tree
def user() -> None:
    """Users and their permissions."""


@user.command_named("create", "c")
@click.argument("username")
@click.argument("password", required=False)
@click.option("-u", "--user-status", type=STATUS, default="active")
@GLOBAL
@STREAMS
@format_option
def create(
    username: str,
    password: str | None,
    user_status: str,
    globally: str | None,
    streams: tuple[str, ...],
    form: str,
) -> None:
    """Create a user; prompts for the password unless given."""
    password = password if password is not None else _new_password(username)
    with reported():
        permissions = permissions_of(globally, streams)
    with connected() as client:
        created = client.create_user(
            username, password, status=UserStatus[user_status.upper()], permissions=permissions
        )
    done(f"User {username!r} was created with id {created.id}.", record_of(created), chosen(form))


add_change(user, USER, "delete", Client.delete_user, "Delete a user; its sessions end.")
add_get(user, USER, Client.get_user, "Describe a user and its permissions.")
add_list(user, Client.get_users, COLUMNS, "List all users.")


@user.command_named("name", "n")
@click.argument("user", type=IDENTIFIER)
@click.argument("username")
@format_option
def name(user: Identifier, username: str, form: str) -> None:
    """Rename a user."""
    with connected() as client:
        client.update_user(user, username=username)
    done(f"User {user!r} was renamed to {username!r}.", {"username": username}, chosen(form))


@user.command_named("status", "s")
@click.argument("user", type=IDENTIFIER)
@click.argument("status", type=STATUS)
@format_option
def status(user: Identifier, status: str, form: str) -> None:
    """Activate or deactivate a user; deactivating ends its sessions."""
    with connected() as client:
        client.update_user(user, status=UserStatus[status.upper()])
    done(f"User {user!r} is {status} now.", {"status": status}, chosen(form))


@user.command_named("password", "pwd")
@click.argument("user", type=IDENTIFIER)
@click.argument("current", required=False)
@click.argument("new", required=False)
@format_option
def password(user: Identifier, current: str | None, new: str | None, form: str) -> None:
    """Change a password; prompts for what is not given."""
    if current is None:
        current = _asked(f"Current password of {user}")
    if new is None:
        new = _new_password(str(user))
    with connected() as client:
        client.change_password(user, current, new)
    done(f"The password of user {user!r} was changed.", {"changed": user}, chosen(form))


@user.command_named("permissions", "p")
@click.argument("user", type=IDENTIFIER)
@GLOBAL
@STREAMS
@format_option
def permissions(
    user: Identifier, globally: str | None, streams: tuple[str, ...], form: str
) -> None:
    """Replace the permissions of a user; without options all are revoked."""
    with reported():
        granted = permissions_of(globally, streams)
    with connected() as client:
        client.update_permissions(user, granted)
    done(f"The permissions of user {user!r} were set.", {"changed": user}, chosen(form))


def _new_password(name: str) -> str:
    return _asked(f"New password of {name}", confirm=True)


def _asked(prompt: str, *, confirm: bool = False) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return str(click.prompt(prompt, hide_input=True, confirmation_prompt=confirm, err=True))
