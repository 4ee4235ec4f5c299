"""``borzoi archive``: list, restore, verify and copy an archive."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from borzoi.archive.catalog import Catalog, NotInArchive, Selection, read_catalog, servers_of
from borzoi.archive.copying import copy_object, plan_copy
from borzoi.archive.restoring import plan_restore, restore, restore_state
from borzoi.archive.verifying import verify
from borzoi.model.units import format_bytes_roughly
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import open_store, parse_location
from borzoi.objectstore.retries import RetryingStore
from borzoi.tools.terminal import FOUND, progress_bar, report_errors

T = TypeVar("T")

url_argument = click.argument("url")
server_option = click.option(
    "--server", help="Whose archive; needed only when several servers share it."
)
stream_option = click.option("--stream", "stream_id", type=click.IntRange(min=0), help="Its id.")
topic_option = click.option("--topic", "topic_id", type=click.IntRange(min=0), help="Its id.")
partition_option = click.option(
    "--partition", "partition_id", type=click.IntRange(min=0), help="Its id."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")


@click.group()
def archive() -> None:
    """List, restore, verify and copy archives.

    URL is where the archive is: file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    az://CONTAINER/PREFIX, with ?endpoint=http://HOST:PORT for a compatible store.
    """


@archive.command("list")
@url_argument
@server_option
@json_option
@report_errors
def list_command(url: str, server: str | None, as_json: bool) -> None:
    """Show which partitions the archive at URL holds, and how much of each."""
    asyncio.run(_with_store(url, lambda store: _list(store, url, server, as_json)))


async def _list(store: ObjectStore, url: str, server: str | None, as_json: bool) -> None:
    for name in await _servers(store, url, server):
        catalog = await read_catalog(store, name)
        for one in catalog.lives:
            stream_id, topic_id, partition_id = one.life.namespace
            row = {
                "server": name,
                "stream": stream_id,
                "topic": topic_id,
                "partition": partition_id,
                "began": one.life.began,
                "segments": len(one.starts),
                "first_offset": min(one.starts),
                "last_segment": max(one.starts),
                "size": one.size,
                "unmarked_files": one.unmarked,
            }
            if as_json:
                click.echo(json.dumps(row))
            else:
                click.echo(
                    f"{name}  {one.life.namespace}  since {_moment(one.life.began)}:"
                    f" {len(one.starts)} segments from offset {min(one.starts)},"
                    f" {format_bytes_roughly(one.size)}"
                    + (f", {one.unmarked} unfinished files" if one.unmarked else "")
                )
        if catalog.states and not as_json:
            click.echo(
                f"{name}  metadata: {len(catalog.states)} copies, up to {catalog.states[-1]}"
            )
        elif catalog.states:
            click.echo(json.dumps({"server": name, "states": catalog.states}))


@archive.command("restore")
@url_argument
@click.option(
    "--to", "target", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="A data directory; new, or without these partitions.",
)  # fmt: skip
@server_option
@stream_option
@topic_option
@partition_option
@click.option("--from-offset", default=0, type=click.IntRange(min=0), help="The first message.")
@report_errors
def restore_command(
    url: str,
    target: Path,
    server: str | None,
    stream_id: int | None,
    topic_id: int | None,
    partition_id: int | None,
    from_offset: int,
) -> None:
    """Bring partitions from the archive at URL back into the directory given by --to.

    Without --stream everything is restored, the metadata as well, and a server can be started on
    the directory. Every file is checked against its checksum before it gets its name.
    """
    selection = Selection(stream_id, topic_id, partition_id, from_offset)
    asyncio.run(_with_store(url, lambda store: _restore(store, url, server, selection, target)))


async def _restore(
    store: ObjectStore, url: str, server: str | None, selection: Selection, target: Path
) -> None:
    catalog = await _catalog(store, url, server)
    plans = await plan_restore(store, catalog, selection, target)
    with progress_bar("restoring", sum(plan.size for plan in plans)) as advance:
        for plan in plans:
            async for size in restore(store, catalog.server, plan):
                advance(size)
    segments = sum(len(plan.markers) for plan in plans)
    click.echo(f"{segments} segments of {len(plans)} partitions are in {target}")
    if selection.stream_id is None and catalog.states:
        index = await restore_state(store, catalog, target)
        click.echo(f"the metadata is there as of entry {index}")


@archive.command("verify")
@url_argument
@server_option
@stream_option
@topic_option
@partition_option
@json_option
@report_errors
def verify_command(
    url: str,
    server: str | None,
    stream_id: int | None,
    topic_id: int | None,
    partition_id: int | None,
    as_json: bool,
) -> None:
    """Read everything in the archive at URL and hold it against its checksums.

    The exit status is 1 when anything is missing or damaged.
    """
    selection = Selection(stream_id, topic_id, partition_id)
    faults = asyncio.run(
        _with_store(url, lambda store: _verify(store, url, server, selection, as_json))
    )
    sys.exit(FOUND if faults else 0)


async def _verify(
    store: ObjectStore, url: str, server: str | None, selection: Selection, as_json: bool
) -> int:
    files = size = faults = 0
    for name in await _servers(store, url, server):
        catalog = await read_catalog(store, name)
        total = sum(one.size for one in catalog.lives if selection.includes(one.life.namespace))
        with progress_bar("reading", total) as advance:
            async for checked in verify(store, catalog, selection, advance=advance):
                files += 1
                size += checked.size
                if checked.fault:
                    faults += 1
                    row = {"key": checked.key, "fault": checked.fault}
                    click.echo(json.dumps(row) if as_json else f"{checked.key}: {checked.fault}")
    if as_json:
        click.echo(json.dumps({"files": files, "size": size, "faults": faults}))
    else:
        click.echo(f"{files} files, {format_bytes_roughly(size)}, {faults} faults")
    return faults


@archive.command("copy")
@url_argument
@click.argument("to")
@server_option
@report_errors
def copy_command(url: str, to: str, server: str | None) -> None:
    """Copy the archive at URL to the store at TO; what is there already is not sent again."""

    async def copied(source: ObjectStore) -> None:
        await _servers(source, url, server)
        await _with_store(to, lambda target: _copy(source, target, server))

    asyncio.run(_with_store(url, copied))


async def _copy(source: ObjectStore, target: ObjectStore, server: str | None) -> None:
    objects = await plan_copy(source, target, f"{server}/" if server else "")
    total = sum(meta.size for meta in objects)
    with progress_bar("copying", total) as advance:
        for meta in objects:
            async for size in copy_object(source, target, meta):
                advance(size)
    click.echo(f"{len(objects)} files were copied, {format_bytes_roughly(total)}")


def _moment(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


async def _servers(store: ObjectStore, url: str, server: str | None) -> list[str]:
    """The server that was named, or all of them; an empty archive is most likely a wrong URL."""
    servers = await servers_of(store)
    if not servers:
        raise NotInArchive(f"there is no archive at {url}")
    if server is None:
        return servers
    if server not in servers:
        raise NotInArchive(f"the archive has no server {server!r}; it has: {', '.join(servers)}")
    return [server]


async def _catalog(store: ObjectStore, url: str, server: str | None) -> Catalog:
    """The part of the server that is meant; with several it has to be named."""
    servers = await _servers(store, url, server)
    if len(servers) != 1:
        raise NotInArchive(f"name one with --server; the archive has: {', '.join(servers)}")
    return await read_catalog(store, servers[0])


async def _with_store(url: str, work: Callable[[ObjectStore], Awaitable[T]]) -> T:
    async with _opened(url) as store:
        return await work(store)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[ObjectStore]:
    store = RetryingStore(open_store(parse_location(url)))
    try:
        yield store
    finally:
        await store.close()
