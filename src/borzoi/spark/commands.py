"""`borzoi pipeline …`: pipelines from the command line."""

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from borzoi.model.errors import BorzoiError
from borzoi.model.units import format_bytes_roughly
from borzoi.spark.pipelines.functions import load_python
from borzoi.spark.pipelines.model import Pipeline
from borzoi.spark.pipelines.planning import plan_pipeline, reset_pipeline, status_of
from borzoi.spark.pipelines.reading import load_pipeline
from borzoi.spark.pipelines.running import BAD_FILE, Display, run_pipeline
from borzoi.spark.progress import JsonLines, PipelineMetrics, Terminal
from borzoi.spark.session import session

TEMPLATE: Final = """\
# A borzoi pipeline: topics in, SQL, topics and lake tables out. Run it with
#     borzoi pipeline run {file}

[pipeline]
name = "{name}"
checkpoint = "checkpoints/{name}"
trigger = "available-now"            # or "5s", "continuous"

[server]
address = "127.0.0.1:8090"
# token = {{ env = "BORZOI_TOKEN" }}

[source.orders]
subscribe = "shop/orders"
start = "earliest"                   # earliest | latest | -2h | 2026-11-01T00:00Z | {{ 0 = 5 }}
format = {{ json = "id long, user long, amount double, country string, at timestamp" }}
on_error = "dead_letter"             # fail | drop | dead_letter

[[step]]
name = "clean"
from = "orders"
sql = "select id, user, amount, country, at, _meta from orders where amount > 0"

[sink.lake]
from = "clean"
table = {{ delta = "lake/orders", partition_by = ["country"] }}

[dead_letter]
topic = "shop/orders_dead"
"""


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn an error of borzoi into one message on stderr and exit code 2."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except BorzoiError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(BAD_FILE)

    return run


def load(path: Path) -> Pipeline:
    return load_python(path) if path.suffix == ".py" else load_pipeline(path)


FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def pipeline() -> None:
    """Run pipelines on Spark: topics in, SQL, topics and lake tables out."""


@pipeline.command()
@FILE
@reports_errors
def new(file: Path) -> None:
    """Write a pipeline FILE to start from."""
    if file.exists():
        raise click.ClickException(f"{file} is there already")
    file.write_text(TEMPLATE.format(file=file, name=file.stem))
    click.echo(f"{file}: edit it, then borzoi pipeline validate {file}")


@pipeline.command()
@FILE
@reports_errors
def validate(file: Path) -> None:
    """Check FILE without a server and without Spark."""
    found = load(file)
    click.echo(
        f"{file}: {len(found.sources)} sources, {len(found.steps)} steps, {len(found.sinks)} sinks"
    )


@pipeline.command()
@FILE
@reports_errors
def plan(file: Path) -> None:
    """Show what FILE would read now: messages, bytes, splits, plane, time."""
    table = Table("sink", "source", "plane", "messages", "bytes", "direct", "tail", "about")
    for each in plan_pipeline(load(file), time.time_ns() // 1000):
        table.add_row(
            each.sink,
            each.source,
            each.plane,
            f"{each.messages:,}",
            format_bytes_roughly(each.bytes),
            f"{each.direct_splits} splits",
            f"{each.tail_splits} splits",
            f"{each.seconds:.1f} core seconds",
        )
    Console().print(table)


@pipeline.command()
@FILE
@click.option("--master", help="Spark master, such as local[2] or spark://127.0.0.1:7077.")
@click.option("--remote", help="Spark Connect server, such as sc://127.0.0.1:15002.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each batch.")
@click.option("--metrics-port", type=int, help="Serve Prometheus metrics on this port of loopback.")
@click.option("--log-file", type=click.Path(path_type=Path), help="File for Spark's output.")
@reports_errors
def run(
    file: Path,
    master: str | None,
    remote: str | None,
    as_json: bool,
    metrics_port: int | None,
    log_file: Path | None,
) -> None:
    """Run FILE; Ctrl-C finishes the running batches, a second Ctrl-C stops at once."""
    found = load(file)
    sys.exit(run_to_end(found, master, remote, as_json, metrics_port, log_file))


def run_to_end(
    found: Pipeline,
    master: str | None = None,
    remote: str | None = None,
    as_json: bool = False,
    metrics_port: int | None = None,
    log_file: Path | None = None,
) -> int:
    """Run a pipeline, show its progress, and return its exit code."""
    log = log_file or found.checkpoint.parent / f"{found.name}.spark.log"
    spark = session(f"borzoi-{found.name}", master=master, remote=remote, log_file=log)
    displays: list[Display] = []
    if as_json or not sys.stdout.isatty():
        displays.append(JsonLines(sys.stdout))
    else:
        displays.append(Terminal(Console()))
    if metrics_port is not None:
        metrics = PipelineMetrics(found.name)
        metrics.serve(metrics_port)
        displays.append(metrics)
    try:
        code, sentence = run_pipeline(spark, found, displays)
    finally:
        spark.stop()
    click.echo(f"{found.name}: {sentence}" + (f" (Spark's log: {log})" if code else ""), err=True)
    return code


@pipeline.command()
@FILE
@reports_errors
def status(file: Path) -> None:
    """Show the progress and the lag of the queries of FILE."""
    table = Table("sink", "batch", "committed", "lag")
    for each in status_of(load(file)):
        table.add_row(each.sink, *(_shown(n) for n in (each.batch, each.committed, each.lag)))
    Console().print(table)


def _shown(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


@pipeline.command()
@FILE
@click.option("--yes", is_flag=True, help="Do not ask.")
@reports_errors
def reset(file: Path, yes: bool) -> None:
    """Delete the checkpoints of FILE: the next run starts over."""
    found = load(file)
    if not yes:
        click.confirm(f"remove {found.checkpoint}?", abort=True)
    gone = reset_pipeline(found)
    click.echo("removed" if gone else "there was no checkpoint")
