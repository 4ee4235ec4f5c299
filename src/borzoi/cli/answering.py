"""The shapes that questions share: one call of a client, then its answer is printed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from borzoi.cli.connecting import connected
from borzoi.cli.documents import found, record_of
from borzoi.cli.names import IDENTIFIER, shown_topic, topic_arguments, topic_of
from borzoi.cli.output import chosen, done, emit, emit_list, format_option, list_options
from borzoi.client import Client
from borzoi.command_tree import CommandTree


def describe(fetch: Callable[[Client], object | None], missing: str, form: str) -> None:
    """Print one item; fail with `missing` if the server does not have it."""
    with connected() as client:
        item = found(fetch(client), missing)
    emit(record_of(item), chosen(form))


def show_list(
    fetch: Callable[[Client], Sequence[object]],
    columns: Mapping[str, str],
    form: str,
    list_mode: str,
) -> None:
    """Print a list; `columns` maps fields to their headings, for tables."""
    with connected() as client:
        items = fetch(client)
    emit_list([record_of(item) for item in items], columns, chosen(form, list_mode))


class Resource(NamedTuple):
    """What the commands of a tree are about, and the argument that names one."""

    kind: str
    argument: Callable[[Callable[..., Any]], Callable[..., Any]]
    #: What the argument stands for: to the client, in a sentence, in a document.
    read: Callable[[Any], tuple[Any, str, object]]


def identified(kind: str) -> Resource:
    """A resource with an id and a name."""
    argument = click.argument(kind, type=IDENTIFIER)
    return Resource(kind, argument, lambda given: (given, repr(given), given))


def _topic(given: tuple[str, ...]) -> tuple[Any, str, object]:
    named, _ = topic_of(given)
    return named, shown_topic(named), shown_topic(named)


TOPIC = Resource("topic", topic_arguments("STREAM TOPIC"), _topic)


def add_change(
    tree: CommandTree, resource: Resource, name: str, carry_out: Callable[..., object], help_: str
) -> None:
    """Add a command that does what its name says to one resource: delete, purge."""

    @tree.command_named(name, name[0], help=help_)
    @resource.argument
    @format_option
    def change(form: str, **arguments: Any) -> None:
        (given,) = arguments.values()
        value, shown, recorded = resource.read(given)
        with connected() as client:
            carry_out(client, value)
        done(f"{resource.kind.title()} {shown} was {name}d.", {f"{name}d": recorded}, chosen(form))


def add_get(
    tree: CommandTree, resource: Resource, fetch: Callable[..., object | None], help_: str
) -> None:
    """Add the command that describes one resource."""

    @tree.command_named("get", "g", help=help_)
    @resource.argument
    @format_option
    def get(form: str, **arguments: Any) -> None:
        (given,) = arguments.values()
        value, shown, _ = resource.read(given)
        missing = f"there is no {resource.kind} {shown}"
        describe(lambda client: fetch(client, value), missing, form)


def add_list(
    tree: CommandTree,
    fetch: Callable[[Client], Sequence[object]],
    columns: Mapping[str, str],
    help_: str,
) -> None:
    """Add the command that lists all there are."""

    @tree.command_named("list", "l", help=help_)
    @list_options
    def list_(form: str, list_mode: str) -> None:
        show_list(fetch, columns, form, list_mode)
