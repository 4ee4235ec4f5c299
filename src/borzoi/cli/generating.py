"""``borzoi generate``: files for the programs that watch a server."""

import json

import click

from borzoi.cli.alerts import alerts
from borzoi.cli.dashboard import dashboard
from borzoi.cli.output import yaml_of
from borzoi.command_tree import CommandTree


@click.group(cls=CommandTree)
def generate() -> None:
    """Print files for the programs that watch a server."""


@generate.command_named("grafana")
def grafana() -> None:
    """Print a dashboard (JSON) that Grafana imports."""
    click.echo(json.dumps(dashboard(), indent=2))


@generate.command_named("alerts")
def alert_rules() -> None:
    """Print rules (YAML) by which Prometheus raises an alarm."""
    click.echo(yaml_of(alerts()), nl=False)
