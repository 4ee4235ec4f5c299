"""``borzoi context``: named sets of connection options."""

import click

from borzoi.cli import home
from borzoi.cli.output import chosen, done, emit_list, format_option, list_options
from borzoi.command_tree import command_tree

COLUMNS = {"name": "Name", "active": "Active", "transport": "Transport", "username": "User"}


@command_tree
def context() -> None:
    """Named connection options in ~/.borzoi; options on the command line override them."""


@context.command_named("list", "l")
@list_options
def list_(form: str, list_mode: str) -> None:
    """List the contexts; secrets are not shown."""
    active = home.active_name()
    rows = [
        {
            "name": f"{name}*" if name == active and form == "table" else name,
            "active": name == active,
            "transport": options.get("transport"),
            "username": options.get("username"),
        }
        for name, options in sorted(home.contexts().items())
    ]
    emit_list(rows, COLUMNS, chosen(form, list_mode))


@context.command_named("use", "u")
@click.argument("name")
@format_option
def use(name: str, form: str) -> None:
    """Use a context from now on."""
    home.use_context(name)
    done(f"Context {name!r} is in use.", {"active": name}, chosen(form))


@context.command_named("create", "c")
@click.argument("name")
@click.option("--transport", type=click.Choice(["tcp", "quic", "http", "ws"]))
@click.option("--tcp-server-address")
@click.option("--http-api-url")
@click.option("--quic-server-address")
@click.option("--websocket-server-address")
@click.option("--tcp-tls-enabled", is_flag=True)
@click.option("-u", "--username")
@click.option("-p", "--password")
@click.option("-t", "--token")
@click.option("-n", "--token-name")
@format_option
def create(name: str, form: str, **options: str | bool | None) -> None:
    """Create a context."""
    home.create_context(name, options)
    done(f"Context {name!r} was created.", {"created": name}, chosen(form))


@context.command_named("delete", "d")
@click.argument("name")
@format_option
def delete(name: str, form: str) -> None:
    """Delete a context."""
    home.delete_context(name)
    done(f"Context {name!r} was deleted.", {"deleted": name}, chosen(form))
