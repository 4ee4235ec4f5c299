"""`borzoi spark …`: a standalone cluster on loopback, and pipelines through spark-submit."""

import os
import subprocess
import sys
from pathlib import Path

import click

from borzoi.spark.clusters import start, stop, submission
from borzoi.spark.commands import reports_errors

DIRECTORY = click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("spark-cluster"),
    show_default=True,
    help="Logs of the cluster, and what is running.",
)


@click.group()
def spark() -> None:
    """Start and end a Spark cluster on this machine; submit pipelines."""


@spark.command()
@DIRECTORY
@click.option("--cores", type=int, default=os.cpu_count() or 1, show_default=True)
@click.option("--memory", default="1g", show_default=True, help="Memory of the worker.")
@click.option("--port", type=int, default=7077, show_default=True, help="0 means any free port.")
@reports_errors
def up(directory: Path, cores: int, memory: str, port: int) -> None:
    """Start a master and a worker on loopback."""
    cluster = start(directory.resolve(), cores=cores, memory=memory, port=port)
    click.echo(cluster.master)


@spark.command()
@DIRECTORY
@reports_errors
def down(directory: Path) -> None:
    """End them."""
    click.echo("ended" if stop(directory.resolve()) else "nothing is running")


@spark.command(context_settings={"ignore_unknown_options": True})
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@reports_errors
def submit(file: Path, options: tuple[str, ...]) -> None:
    """Run the pipeline FILE through spark-submit, which gets all OPTIONS."""
    command, environment = submission(file, options)
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)  # noqa: S603
