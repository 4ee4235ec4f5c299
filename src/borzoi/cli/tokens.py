"""``borzoi pat``, ``borzoi login`` and ``borzoi logout``: create, list and store tokens."""

import contextlib

import click

from borzoi.cli import home
from borzoi.cli.answering import add_list
from borzoi.cli.connecting import Connecting, connected
from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.output import chosen, done, format_option
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.errors import BorzoiError, NotFound, TokenNameTaken

COLUMNS = {"name": "Name", "expiry_at": "Token Expiry Time"}
#: How long a login lasts by default.
LOGIN_EXPIRY = "15m"


@command_tree
def pat() -> None:
    """Personal access tokens of the user that is logged in."""


def _expiry(parts: tuple[str, ...]) -> str | int:
    text = " ".join(parts)
    return 0 if text in ("", "none", "never") else text


@pat.command_named("create", "c")
@click.argument("name")
@click.argument("expiry", nargs=-1)
@click.option("-s", "--store-token", is_flag=True, help="Store it here, for -n NAME.")
@format_option
@click.pass_obj
def create(
    connecting: Connecting, name: str, expiry: tuple[str, ...], store_token: bool, form: str
) -> None:
    """Create a token; it is shown once. EXPIRY is a duration such as 7days, or none."""
    if store_token and _expiry(expiry):
        raise click.UsageError("only a token without expiry can be stored")
    with connected() as client:
        token = client.create_personal_access_token(name, expiry=_expiry(expiry))
    if store_token:
        home.keep_token(connecting.address, name, token)
        done(f"Token {name!r} was created and stored.", {"name": name}, chosen(form))
    elif connecting.quiet:
        click.echo(token)
    else:
        done(f"Token {name!r}: {token}", {"name": name, "token": token}, chosen(form))


@pat.command_named("delete", "d")
@click.argument("name")
@format_option
@click.pass_obj
def delete(connecting: Connecting, name: str, form: str) -> None:
    """Delete a token; sessions that were opened with it end."""
    with connected() as client:
        client.delete_personal_access_token(name)
    home.forget_token(connecting.address, name)
    done(f"Token {name!r} was deleted.", {"deleted": name}, chosen(form))


add_list(pat, Client.get_personal_access_tokens, COLUMNS, "List the names of the tokens.")


@click.command()
@click.argument("expiry", nargs=-1)
@format_option
@click.pass_obj
def login(connecting: Connecting, expiry: tuple[str, ...], form: str) -> None:
    """Log in and store the session for later commands.

    EXPIRY is how long it lasts: 15 minutes by default, none for no limit.
    """
    address = connecting.address
    with connected() as client:
        if home.session_token(address) is None:
            # Left over from a login whose token was lost; only the server still has it.
            with contextlib.suppress(NotFound):
                client.delete_personal_access_token(home.SESSION)
        token = _session_token(client, _expiry(expiry) if expiry else LOGIN_EXPIRY)
    home.keep_token(address, home.SESSION, token)
    done(f"Logged in at {address}.", {"address": address}, chosen(form))


def _session_token(client: Client, expiry: str | int) -> str:
    try:
        return client.create_personal_access_token(home.SESSION, expiry=expiry)
    except TokenNameTaken:
        client.delete_personal_access_token(home.SESSION)
        return client.create_personal_access_token(home.SESSION, expiry=expiry)


@click.command()
@format_option
@click.pass_obj
def logout(connecting: Connecting, form: str) -> None:
    """End the session of a login."""
    address = connecting.address
    if home.session_token(address) is None:
        raise CommandFailed(f"there is no login session at {address}", Exit.NOT_FOUND)
    try:
        with connected() as client, contextlib.suppress(BorzoiError):
            client.delete_personal_access_token(home.SESSION)
    finally:
        home.forget_token(address, home.SESSION)
    done(f"Logged out at {address}.", {"address": address}, chosen(form))
