"""`borzoi spark …`: a standalone cluster on loopback, for tests and for trying things out."""

import os
from pathlib import Path

import click

from borzoi.spark.clusters import start, stop
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
    """Start and stop a Spark cluster on this machine."""


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
