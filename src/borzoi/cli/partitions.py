"""``borzoi partition`` and ``borzoi segment``: add and remove them."""

from collections.abc import Callable

import click

from borzoi.cli.connecting import connected
from borzoi.cli.names import Topic, shown_topic, topic_arguments, topic_of
from borzoi.cli.output import chosen, done, format_option
from borzoi.client import Client
from borzoi.command_tree import command_tree

COUNT_MAX = 100_000


@command_tree
def partition() -> None:
    """Partitions of a topic."""


@command_tree
def segment() -> None:
    """Segments: the files of a partition."""


def _counted(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= COUNT_MAX:
        raise click.BadParameter(f"{text!r} is not a count; 1 to {COUNT_MAX} is allowed")
    return int(text)


def _add_change(
    name: str, carry_out: Callable[[Client, Topic, int], object], shown: str, help_: str
) -> None:
    """Add a command that changes how many partitions a topic has."""

    @partition.command_named(name, name[0], help=help_)
    @topic_arguments("STREAM TOPIC COUNT")
    @format_option
    def change(arguments: tuple[str, ...], form: str) -> None:
        named, rest = topic_of(arguments, rest=1)
        if len(rest) != 1:
            raise click.UsageError("exactly one COUNT is needed after the topic")
        count = _counted(rest[0])
        with connected() as client:
            carry_out(client, named, count)
        sentence = f"{count} partitions were {shown} topic {shown_topic(named)}."
        done(sentence, {f"{name}d": count}, chosen(form))


_add_change("create", Client.create_partitions, "added to", "Add partitions to a topic.")
_add_change(
    "delete",
    Client.delete_partitions,
    "removed from",
    "Remove the last partitions of a topic with their messages.",
)


@segment.command_named("delete", "d")
@topic_arguments("STREAM TOPIC PARTITION COUNT")
@format_option
def delete_segments(arguments: tuple[str, ...], form: str) -> None:
    """Remove the oldest sealed segments of a partition."""
    named, rest = topic_of(arguments, rest=2)
    if len(rest) != 2 or not rest[0].isdecimal():
        raise click.UsageError("a partition and a count are needed, both whole numbers")
    count = _counted(rest[1])
    with connected() as client:
        client.delete_segments(named, int(rest[0]), count)
    sentence = f"Up to {count} segments of {shown_topic(named)}/{rest[0]} were deleted."
    done(sentence, {"requested": count}, chosen(form))
