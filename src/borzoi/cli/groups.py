"""``borzoi consumer-group`` and ``borzoi consumer-offset``."""

from typing import TypedDict

import click

from borzoi.cli.answering import describe, show_list
from borzoi.cli.connecting import connected
from borzoi.cli.documents import found, record_of
from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.names import IDENTIFIER, Topic, shown_topic, topic_arguments, topic_of
from borzoi.cli.output import chosen, done, emit, format_option, list_options
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.identifiers import Identifier

COLUMNS = {
    "id": "ID",
    "name": "Name",
    "partitions_count": "Partitions",
    "members_count": "Members",
}


@command_tree
def consumer_group() -> None:
    """Consumer groups: readers that share the partitions of a topic."""


@command_tree
def consumer_offset() -> None:
    """Offsets: how far consumers and groups have read."""


def _topic_and_one(arguments: tuple[str, ...], name: str) -> tuple[Topic, str]:
    named, rest = topic_of(arguments, rest=1)
    if len(rest) != 1:
        raise click.UsageError(f"{name} is needed after the topic")
    return named, rest[0]


@consumer_group.command_named("create", "c")
@topic_arguments("STREAM TOPIC NAME")
@click.option("-g", "--group-id", type=int, hidden=True, help="Accepted and ignored, as in 0.8.")
@format_option
def create(arguments: tuple[str, ...], group_id: int | None, form: str) -> None:
    """Create a consumer group."""
    del group_id
    named, name = _topic_and_one(arguments, "a name")
    with connected() as client:
        created = client.create_consumer_group(named, name)
    sentence = f"Consumer group {name!r} of {shown_topic(named)} was created, id {created.id}."
    done(sentence, record_of(created), chosen(form))


@consumer_group.command_named("delete", "d")
@topic_arguments("STREAM TOPIC GROUP")
@format_option
def delete(arguments: tuple[str, ...], form: str) -> None:
    """Delete a consumer group with its offsets."""
    named, group = _topic_and_one(arguments, "a group")
    with connected() as client:
        client.delete_consumer_group(named, IDENTIFIER.convert(group, None, None))
    done(f"Consumer group {group!r} was deleted.", {"deleted": group}, chosen(form))


@consumer_group.command_named("get", "g")
@topic_arguments("STREAM TOPIC GROUP")
@format_option
def get(arguments: tuple[str, ...], form: str) -> None:
    """Describe a consumer group and its members."""
    named, group = _topic_and_one(arguments, "a group")
    identifier = IDENTIFIER.convert(group, None, None)
    missing = f"there is no consumer group {group!r} in {shown_topic(named)}"
    describe(lambda client: client.get_consumer_group(named, identifier), missing, form)


@consumer_group.command_named("list", "l")
@topic_arguments("STREAM TOPIC")
@list_options
def list_(arguments: tuple[str, ...], form: str, list_mode: str) -> None:
    """List the consumer groups of a topic."""
    named, _ = topic_of(arguments)
    show_list(lambda client: client.get_consumer_groups(named), COLUMNS, form, list_mode)


KIND = click.option(
    "-k",
    "--kind",
    type=click.Choice(["consumer", "consumer-group"]),
    default="consumer",
    help="Whose offset it is.  [default: consumer]",
)


def _place(arguments: tuple[str, ...], count: int) -> tuple[Topic, list[int]]:
    named, rest = topic_of(arguments, rest=count)
    if len(rest) != count or not all(one.isdecimal() for one in rest):
        wanted = "a partition" if count == 1 else "a partition and an offset"
        raise click.UsageError(f"{wanted} is needed after the topic, as whole numbers")
    return named, [int(one) for one in rest]


class _Reader(TypedDict, total=False):
    consumer: Identifier
    group: Identifier


def _reader(kind: str, consumer: Identifier) -> _Reader:
    return {"group": consumer} if kind == "consumer-group" else {"consumer": consumer}


def _join_empty(client: Client, named: Topic, group: Identifier) -> None:
    """Join the group for a moment, because a server accepts its offsets only from members.

    That would take partitions from other members, so there must be none.
    """
    details = found(client.get_consumer_group(named, group), f"there is no group {group!r}")
    if details.members_count:
        raise CommandFailed(
            f"consumer group {group!r} has members, and only they can set its offsets",
            Exit.INVALID,
            "stop its consumers first",
        )
    client.join_consumer_group(named, group)


@consumer_offset.command_named("get", "g")
@click.argument("consumer", type=IDENTIFIER)
@topic_arguments("STREAM TOPIC PARTITION")
@KIND
@format_option
def get_offset(consumer: Identifier, arguments: tuple[str, ...], kind: str, form: str) -> None:
    """Show how far a consumer has read in a partition."""
    named, (partition,) = _place(arguments, 1)
    with connected() as client:
        offset = client.get_consumer_offset(named, partition=partition, **_reader(kind, consumer))
    missing = f"{kind} {consumer!r} has stored no offset in partition {partition}"
    emit(record_of(found(offset, missing)), chosen(form))


@consumer_offset.command_named("set", "s")
@click.argument("consumer", type=IDENTIFIER)
@topic_arguments("STREAM TOPIC PARTITION OFFSET")
@KIND
@format_option
def set_offset(consumer: Identifier, arguments: tuple[str, ...], kind: str, form: str) -> None:
    """Set how far a consumer has read; its next poll starts after that offset."""
    named, (partition, offset) = _place(arguments, 2)
    with connected() as client:
        if kind == "consumer-group":
            _join_empty(client, named, consumer)
        client.store_consumer_offset(named, offset, partition=partition, **_reader(kind, consumer))
    done(f"The offset of {kind} {consumer!r} is now {offset}.", {"offset": offset}, chosen(form))
