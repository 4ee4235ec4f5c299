"""``borzoi ping``, ``me``, ``stats``, ``snapshot``, ``client``, ``cluster``."""

import statistics
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from borzoi.cli.answering import Resource, add_get, add_list
from borzoi.cli.connecting import connected
from borzoi.cli.documents import record_of
from borzoi.cli.output import chosen, done, emit, emit_list, format_option, list_options, note
from borzoi.client import Client
from borzoi.command_tree import command_tree
from borzoi.model.system import SnapshotCompression, SnapshotKind

CLIENT = Resource(
    "client", click.argument("client_id", type=int), lambda given: (given, str(given), given)
)
CLIENTS = {
    "client_id": "Client ID",
    "user_id": "User ID",
    "address": "Address",
    "transport": "Transport",
    "consumer_groups_count": "Consumer Groups",
}
NODES = {
    "name": "Name",
    "ip": "IP",
    "tcp_port": "TCP",
    "quic_port": "QUIC",
    "http_port": "HTTP",
    "websocket_port": "WebSocket",
    "role": "Role",
    "status": "Status",
}
#: The default content of a snapshot, as in 0.8.
SNAPSHOT_KINDS = ("filesystem_overview", "process_list", "resource_usage", "server_logs")


@click.command()
@click.option("-c", "--count", type=click.IntRange(1), default=1, show_default=True)
@format_option
def ping(count: int, form: str) -> None:
    """Ping the server once a second; needs no login."""
    times: list[float] = []
    with connected(log_in=False) as client:
        for number in range(count):
            if number:
                time.sleep(1)
            began = time.perf_counter()
            client.ping()
            times.append((time.perf_counter() - began) * 1000)
            if form == "table":
                click.echo(f"ping {number + 1}: {times[-1]:.3f} ms")
    summary = {
        "count": count,
        "min_ms": round(min(times), 3),
        "avg_ms": round(statistics.fmean(times), 3),
        "max_ms": round(max(times), 3),
        "mdev_ms": round(statistics.pstdev(times), 3),
    }
    sentence = "min/avg/max/mdev = {min_ms}/{avg_ms}/{max_ms}/{mdev_ms} ms".format(**summary)
    done(sentence, summary, chosen(form))


@click.command()
@format_option
def me(form: str) -> None:
    """Show the connection and its user as the server sees them."""
    with connected() as client:
        emit(record_of(client.get_me()), chosen(form))


@click.command()
@format_option
def stats(form: str) -> None:
    """Show what the server and its process are doing."""
    with connected() as client:
        emit(record_of(client.get_stats()), chosen(form))


@click.command()
@click.option(
    "-c",
    "--compression",
    type=click.Choice([one.name.lower() for one in SnapshotCompression]),
    default="deflated",
)
@click.option(
    "-s",
    "--snapshot-types",
    multiple=True,
    type=click.Choice([one.name.lower() for one in SnapshotKind]),
    default=SNAPSHOT_KINDS,
)
@click.option("--out-dir", type=click.Path(path_type=Path, file_okay=False), default=Path())
@format_option
def snapshot(compression: str, snapshot_types: tuple[str, ...], out_dir: Path, form: str) -> None:
    """Save a ZIP file with diagnostics for support."""
    kinds = [SnapshotKind[one.upper()] for one in snapshot_types]
    with connected() as client:
        data = client.get_snapshot(kinds, compression=SnapshotCompression[compression.upper()])
    out_dir.mkdir(parents=True, exist_ok=True)
    path = out_dir / f"snapshot_{datetime.now().astimezone():%Y%m%d_%H%M%S}.zip"
    path.write_bytes(data)
    done(
        f"Saved {path} ({len(data)} bytes).", {"path": str(path), "bytes": len(data)}, chosen(form)
    )


@command_tree
def client() -> None:
    """Connections to the server."""


@command_tree
def cluster() -> None:
    """The nodes of a cluster."""


add_get(client, CLIENT, Client.get_client, "Describe a connection and its groups.")
add_list(client, Client.get_clients, CLIENTS, "List all connections.")


@cluster.command_named("metadata", "m")
@list_options
def metadata(form: str, list_mode: str) -> None:
    """List the nodes that the server reports."""
    with connected() as connection:
        answer = record_of(connection.get_cluster_metadata())
    shape = chosen(form, list_mode)
    if form in ("table", "jsonl"):
        note(f"cluster {answer['name']}")
        nodes: list[dict[str, Any]] = answer["nodes"]
        emit_list(nodes, NODES, shape)
    else:
        emit(answer, shape)
