"""``borzoi topic``: list, describe, create, change, empty, delete."""

import click

from borzoi.cli.answering import TOPIC, add_change, add_get, show_list
from borzoi.cli.connecting import connected
from borzoi.cli.documents import record_of
from borzoi.cli.names import IDENTIFIER, shown_topic, topic_arguments, topic_of
from borzoi.cli.output import chosen, done, format_option, list_options
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.identifiers import Identifier
from borzoi.model.topics import Compression

COLUMNS = {
    "id": "ID",
    "created_at": "Created",
    "name": "Name",
    "size_bytes": "Size",
    "max_topic_size": "Max Size",
    "compression": "Codec",
    "message_expiry": "Expiry",
    "messages_count": "Messages",
    "partitions_count": "Partitions",
}
CREATE_ARGUMENTS = "STREAM NAME [PARTITIONS [COMPRESSION [EXPIRY…]]]"
UPDATE_ARGUMENTS = "STREAM TOPIC NAME [COMPRESSION [EXPIRY…]]"
COMPRESSIONS = {one.name.lower(): one for one in Compression}


@command_tree
def topic() -> None:
    """Topics: logs of messages in partitions. STREAM/TOPIC works wherever STREAM TOPIC does."""


def _expiry(parts: list[str]) -> str | int:
    """``7days``, ``1h 30m``, ``none`` or ``server_default``, perhaps in several words."""
    text = " ".join(parts)
    return 0 if text in ("", "server_default") else {"none": "never_expire"}.get(text, text)


def _compression(text: str) -> Compression:
    if text not in COMPRESSIONS:
        raise click.BadParameter(
            f"{text!r} is not a compression; {', '.join(COMPRESSIONS)} are allowed"
        )
    return COMPRESSIONS[text]


def _count(text: str, name: str) -> int:
    if not text.isdecimal():
        raise click.BadParameter(f"{name} is {text!r}; a whole number is needed")
    return int(text)


def _size(text: str) -> str | int:
    return 0 if text == "server_default" else text


@topic.command_named("create", "c")
@topic_arguments("STREAM NAME [PARTITIONS [COMPRESSION [EXPIRY…]]]")
@click.option("-m", "--max-topic-size", default="server_default", help="A size, or unlimited.")
@click.option("-r", "--replication-factor", type=click.IntRange(0, 255), default=1)
@click.option("-t", "--topic-id", type=int, hidden=True, help="Accepted and ignored, as in 0.8.")
@format_option
def create(
    arguments: tuple[str, ...],
    max_topic_size: str,
    replication_factor: int,
    topic_id: int | None,
    form: str,
) -> None:
    """Create a topic."""
    del topic_id
    named, rest = topic_of(arguments)
    partitions = _count(rest[0], "the number of partitions") if rest else 1
    compression = _compression(rest[1]) if len(rest) > 1 else Compression.NONE
    with connected() as client:
        created = client.create_topic(
            (named[0], str(named[1])),
            partitions=partitions,
            compression=compression,
            message_expiry=_expiry(rest[2:]),
            max_size=_size(max_topic_size),
            replication_factor=replication_factor,
        )
    sentence = f"Topic {shown_topic(named)} was created with {partitions} partitions."
    done(sentence, record_of(created), chosen(form))


@topic.command_named("update", "u")
@topic_arguments("STREAM TOPIC NAME [COMPRESSION [EXPIRY…]]")
@click.option("-m", "--max-topic-size", default="server_default", help="A size, or unlimited.")
@click.option("-r", "--replication-factor", type=click.IntRange(0, 255), default=1)
@format_option
def update(
    arguments: tuple[str, ...], max_topic_size: str, replication_factor: int, form: str
) -> None:
    """Rename a topic and change its settings."""
    named, rest = topic_of(arguments, rest=1)
    if not rest:
        raise click.UsageError("the topic's name is needed, the same or a new one")
    with connected() as client:
        client.update_topic(
            named,
            rest[0],
            compression=_compression(rest[1]) if len(rest) > 1 else Compression.NONE,
            message_expiry=_expiry(rest[2:]),
            max_size=_size(max_topic_size),
            replication_factor=replication_factor,
        )
    done(f"Topic {shown_topic(named)} was changed.", {"name": rest[0]}, chosen(form))


add_change(topic, TOPIC, "delete", Client.delete_topic, "Delete a topic with its messages.")
add_change(topic, TOPIC, "purge", Client.purge_topic, "Delete all messages of a topic.")
add_get(topic, TOPIC, Client.get_topic, "Describe a topic and its partitions.")


@topic.command_named("list", "l")
@click.argument("stream", type=IDENTIFIER)
@list_options
def list_(stream: Identifier, form: str, list_mode: str) -> None:
    """List the topics of a stream."""
    show_list(lambda client: client.get_topics(stream), COLUMNS, form, list_mode)
