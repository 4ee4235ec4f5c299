"""``borzoi stream``: list, describe, create, rename, empty, delete."""

import click

from borzoi.cli.answering import describe, show_list
from borzoi.cli.connecting import connected
from borzoi.cli.documents import record_of
from borzoi.cli.names import IDENTIFIER
from borzoi.cli.output import chosen, done, format_option, list_options
from borzoi.command_tree import CommandTree
from borzoi.model.identifiers import Identifier

COLUMNS = {
    "id": "ID",
    "created_at": "Created",
    "name": "Name",
    "size_bytes": "Size",
    "messages_count": "Messages",
    "topics_count": "Topics",
}


@click.group(cls=CommandTree)
def stream() -> None:
    """Streams: collections of topics."""


assert isinstance(stream, CommandTree)


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


@stream.command_named("delete", "d")
@click.argument("stream", type=IDENTIFIER)
@format_option
def delete(stream: Identifier, form: str) -> None:
    """Delete a stream with its topics and messages."""
    with connected() as client:
        client.delete_stream(stream)
    done(f"Stream {stream!r} was deleted.", {"deleted": stream}, chosen(form))


@stream.command_named("update", "u")
@click.argument("stream", type=IDENTIFIER)
@click.argument("name")
@format_option
def update(stream: Identifier, name: str, form: str) -> None:
    """Rename a stream."""
    with connected() as client:
        client.update_stream(stream, name)
    done(f"Stream {stream!r} was renamed to {name!r}.", {"name": name}, chosen(form))


@stream.command_named("purge", "p")
@click.argument("stream", type=IDENTIFIER)
@format_option
def purge(stream: Identifier, form: str) -> None:
    """Delete all messages of a stream; its topics stay."""
    with connected() as client:
        client.purge_stream(stream)
    done(f"Stream {stream!r} was purged.", {"purged": stream}, chosen(form))


@stream.command_named("get", "g")
@click.argument("stream", type=IDENTIFIER)
@format_option
def get(stream: Identifier, form: str) -> None:
    """Describe a stream."""
    describe(lambda client: client.get_stream(stream), f"there is no stream {stream!r}", form)


@stream.command_named("list", "l")
@list_options
def list_(form: str, list_mode: str) -> None:
    """List all streams."""
    show_list(lambda client: client.get_streams(), COLUMNS, form, list_mode)
