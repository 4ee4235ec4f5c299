"""`borzoi job …`: common work on topics, one command each."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from rich.console import Console
from rich.table import Table

from borzoi.model.units import format_bytes_roughly, parse_bytes
from borzoi.spark import jobs
from borzoi.spark.commands import reports_errors, run_to_end
from borzoi.spark.lake.compacting import compact as compact_table
from borzoi.spark.lake.kinds import KINDS
from borzoi.spark.options import ConnectionOptions, InvalidOption, source_options
from borzoi.spark.pacing import SendRate
from borzoi.spark.session import session

#: Exit code when what was looked at is damaged.
DAMAGED = 3


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every job: where the server is and as whom to log in."""
    for option in (
        click.option("--server", default="127.0.0.1:8090", help="Address of the server."),
        click.option("--username", help="User to log in as."),
        click.option("--password-env", help="Environment variable with the password."),
        click.option("--token-env", help="Environment variable with an access token."),
        click.option("--data", help="Data directory of the server, to read segments directly."),
    ):
        command = option(command)
    return command


def section_of(options: dict[str, Any]) -> dict[str, Any]:
    """`[server]` of a pipeline from the options of a job."""
    section: dict[str, Any] = {"address": options["server"]}
    if options["username"]:
        section["username"] = options["username"]
    if options["password_env"]:
        section["password"] = {"env": options["password_env"]}
    if options["token_env"]:
        section["token"] = {"env": options["token_env"]}
    return section


def connector_options(options: dict[str, Any]) -> dict[str, str]:
    """Options of the connector from the options of a job."""
    names = {
        "server": "servers",
        "username": "username",
        "password_env": "passwordEnv",
        "token_env": "tokenEnv",
        "data": "dataDirectory",
    }
    return {names[key]: value for key, value in options.items() if key in names and value}


def source_section(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    section = {key: value for key, value in more.items() if value is not None}
    return section | ({"data_directory": options["data"]} if options["data"] else {})


CHECKPOINT = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="Checkpoint of the job; a new one each time unless given.",
)
MASTER = click.option("--master", help="Spark master; this process unless given.")


def checkpoint_of(given: Path | None, job: str) -> Path:
    return (given or Path("checkpoints") / f"{job}-{uuid4().hex[:8]}").resolve()


@click.group()
def job() -> None:
    """Archive, copy, replay, verify and count topics."""


@job.command()
@click.argument("topic")
@click.argument("target")
@click.option("--partition-by", multiple=True, help="Column, day(column) or hour(column).")
@click.option("--columns", help="Columns to keep, with commas.")
@click.option("--headers", type=click.Choice(["none", "raw", "map", "typed"]), default="raw")
@click.option("--target-file-size", default="128 MiB")
@CHECKPOINT
@MASTER
@server_options
@reports_errors
def archive(
    topic: str,
    target: str,
    partition_by: tuple[str, ...],
    columns: str | None,
    headers: str,
    target_file_size: str,
    checkpoint: Path | None,
    master: str | None,
    **options: Any,
) -> None:
    """Write TOPIC into a table: TARGET is parquet:DIR, delta:DIR or iceberg:DIR."""
    kind, _, directory = target.partition(":")
    if kind not in KINDS or not directory:
        raise InvalidOption(f"the target {target!r} is not one of {', '.join(KINDS)} with :DIR")
    table = {
        kind: str(Path(directory).resolve()),
        "partition_by": list(partition_by),
        "target_file_size": target_file_size,
    }
    if checkpoint is None:
        # Next to the table, so that repeating the command continues where this one ended.
        checkpoint = Path(f"{Path(directory).resolve()}.checkpoint")
    found = jobs.copying_pipeline(
        "archive",
        topic,
        server=section_of(options),
        source=source_section(options, columns=columns, headers=headers),
        sink={"table": table},
        checkpoint=checkpoint,
    )
    sys.exit(run_to_end(found, master))


@job.command()
@click.argument("topic")
@click.argument("target")
@CHECKPOINT
@MASTER
@server_options
@reports_errors
def copy(
    topic: str, target: str, checkpoint: Path | None, master: str | None, **options: Any
) -> None:
    """Copy TOPIC into the topic TARGET, exactly once and in order."""
    _copy(topic, target, {}, {}, checkpoint_of(checkpoint, "copy"), master, options)


@job.command()
@click.argument("topic")
@click.argument("target")
@click.option("--partitions", type=int, required=True, help="Partitions of the new topic.")
@CHECKPOINT
@MASTER
@server_options
@reports_errors
def repartition(
    topic: str,
    target: str,
    partitions: int,
    checkpoint: Path | None,
    master: str | None,
    **options: Any,
) -> None:
    """Copy TOPIC into TARGET with another number of partitions.

    Messages of one partition stay together and in order: partition n becomes n modulo the new
    number.
    """
    sink = {"create_partitions": partitions}
    path = checkpoint_of(checkpoint, "repartition")
    _copy(topic, target, {}, sink, path, master, options)


@job.command()
@click.argument("topic")
@click.argument("target", required=False)
@click.option("--from", "start", default="earliest", help="earliest, a time, or a span like -2h.")
@click.option("--to", "end", default="latest", help="latest, or a time.")
@click.option("--rate", type=click.IntRange(min=1), help="Messages a second at most.")
@click.option("--from-dlq", is_flag=True, help="TOPIC has dead letters: send them back.")
@MASTER
@server_options
@reports_errors
def replay(
    topic: str,
    target: str | None,
    start: str,
    end: str,
    rate: int | None,
    from_dlq: bool,
    master: str | None,
    **options: Any,
) -> None:
    """Send a range of TOPIC again, to TARGET, without touching any other query.

    With --from-dlq the messages go to the topics they came from, unless TARGET is given.
    """
    if from_dlq:
        given = connector_options(options)
        connection: ConnectionOptions = source_options(given | {"subscribe": topic}).connection
        limit = None if rate is None else SendRate(rate)
        sent = jobs.replay_dead_letters(connection, topic, target, limit)
        click.echo(f"{sent} messages sent")
        return
    if target is None:
        raise InvalidOption("replay needs a TARGET topic")
    reader = connector_options(options) | {"subscribe": topic}
    for side, value in (("starting", start), ("ending", end)):
        word = value in ("earliest", "latest")
        reader[f"{side}{'Offsets' if word else 'Timestamp'}"] = value
    spark = session("borzoi-replay", master=master)
    writer = {k: v for k, v in connector_options(options).items() if k != "dataDirectory"}
    count = jobs.replay(spark, reader, writer | {"topic": target}, rate)
    click.echo(f"{count} messages sent")


def _copy(
    topic: str,
    target: str,
    source: dict[str, Any],
    sink: dict[str, Any],
    checkpoint: Path,
    master: str | None,
    options: dict[str, Any],
) -> None:
    found = jobs.copying_pipeline(
        "copy",
        topic,
        server=section_of(options),
        source=source_section(options, **source),
        sink={"topic": target} | sink,
        checkpoint=checkpoint,
    )
    sys.exit(run_to_end(found, master))


@job.command()
@click.argument("topic")
@server_options
@reports_errors
def verify(topic: str, **options: Any) -> None:
    """Read all of TOPIC and check every checksum, offset and index entry."""
    found = jobs.verify(connector_options(options) | {"subscribe": topic})
    faults = [each.fault for each in found if each.fault]
    for fault in faults:
        click.echo(fault)
    messages = sum(each.messages for each in found)
    size = format_bytes_roughly(sum(each.bytes for each in found))
    click.echo(f"{messages:,} messages, {size}, {len(faults)} faults")
    sys.exit(DAMAGED if faults else 0)


@job.command()
@click.argument("topic")
@click.option("--top", help="Also count the values of this field of JSON payloads.")
@server_options
@reports_errors
def stats(topic: str, top: str | None, **options: Any) -> None:
    """Count what TOPIC holds."""
    given = connector_options(options) | {"subscribe": topic}
    table = Table("partition", "offsets", "messages", "bytes", "first", "last")
    for each in jobs.stats(given):
        table.add_row(
            str(each.key.partition),
            f"{each.earliest} – {each.latest}",
            f"{each.messages:,}",
            format_bytes_roughly(each.bytes),
            _moment(each.first_time),
            _moment(each.last_time),
        )
    console = Console()
    console.print(table)
    if top is not None:
        for value, count in jobs.top_values(given, top, 20):
            console.print(f"{count:>12,}  {value}")


def _moment(micros: int | None) -> str:
    if micros is None:
        return "–"
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat(timespec="seconds")


@job.command()
@click.argument("table")
@click.option("--target-file-size", default="128 MiB")
@click.option("--older-than-hours", default=168.0, help="Keep younger files no commit names.")
@reports_errors
def compact(table: str, target_file_size: str, older_than_hours: float) -> None:
    """Merge small files of TABLE (parquet:DIR or delta:DIR) and remove abandoned ones."""
    kind, _, directory = table.partition(":")
    done = compact_table(
        kind,
        directory,
        target_bytes=parse_bytes(target_file_size),
        older_than_hours=older_than_hours,
    )
    click.echo(
        f"{done.files_before} files became {done.files_after}, "
        f"{done.orphans_removed} abandoned ones removed"
    )


@job.command()
@click.argument("path")
@click.argument("topic")
@click.option("--format", "format_", type=click.Choice(["json", "csv", "parquet", "orc"]))
@click.option("--key", help="Column that chooses the partition.")
@click.option("--create-partitions", type=int, help="Create the topic with this many partitions.")
@MASTER
@server_options
@reports_errors
def ingest(
    path: str,
    topic: str,
    format_: str | None,
    key: str | None,
    create_partitions: int | None,
    master: str | None,
    **options: Any,
) -> None:
    """Write the rows of files into TOPIC."""
    writer = {k: v for k, v in connector_options(options).items() if k != "dataDirectory"}
    writer["topic"] = topic
    if create_partitions is not None:
        writer["createPartitions"] = str(create_partitions)
    chosen = format_ or Path(path).suffix.lstrip(".") or "json"
    spark = session("borzoi-ingest", master=master)
    count = jobs.ingest(spark, chosen, path, key=key, options=writer)
    click.echo(f"{count} messages sent")
