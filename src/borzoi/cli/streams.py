"""``borzoi stream``: list, describe, create, rename, empty, delete."""

import click

from borzoi.cli.answering import add_change, add_get, add_list, identified
from borzoi.cli.connecting import connected
from borzoi.cli.documents import record_of
from borzoi.cli.names import IDENTIFIER
from borzoi.cli.output import chosen, done, format_option
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.identifiers import Identifier

COLUMNS = {
    "id": "ID",
    "created_at": "Created",
    "name": "Name",
    "size_bytes": "Size",
    "messages_count": "Messages",
    "topics_count": "Topics",
}
STREAM = identified("stream")


@command_tree
def stream() -> None:
    """Streams: collections of topics."""


@stream.command_named("create", "c")
@click.argument("name")
@click.option("-s", "--stream-id", type=int, hidden=True, help="Accepted and ignored, as in 0.8.")
@format_option
def create(name: str, stream_id: int | None, form: str) -> None:
    """Create a stream."""
    del stream_id
    with connected() as client:
        created = client.create_stream(name)
    done(f"Stream {name!r} was created with id {created.id}.", record_of(created), chosen(form))


add_change(
    stream, STREAM, "delete", Client.delete_stream, "Delete a stream with its topics and messages."
)


@stream.command_named("update", "u")
@click.argument("stream", type=IDENTIFIER)
@click.argument("name")
@format_option
def update(stream: Identifier, name: str, form: str) -> None:
    """Rename a stream."""
    with connected() as client:
        client.update_stream(stream, name)
    done(f"Stream {stream!r} was renamed to {name!r}.", {"name": name}, chosen(form))


add_change(
    stream,
    STREAM,
    "purge",
    Client.purge_stream,
    "Delete all messages of a stream; its topics stay.",
)
add_get(stream, STREAM, Client.get_stream, "Describe a stream.")
add_list(stream, Client.get_streams, COLUMNS, "List all streams.")
