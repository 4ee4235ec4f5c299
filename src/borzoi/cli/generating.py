"""``borzoi generate``: files for programs that monitor a server."""

import json

import click

from borzoi.cli.alerts import alerts
from borzoi.cli.dashboard import dashboard
from borzoi.cli.output import yaml_of
from borzoi.command_tree import command_tree


@command_tree
def generate() -> None:
    """Print files for programs that monitor a server."""


@generate.command_named("grafana")
def grafana() -> None:
    """Print a dashboard (JSON) that Grafana imports."""
    click.echo(json.dumps(dashboard(), indent=2))


@generate.command_named("alerts")
def alert_rules() -> None:
    """Print alerting rules (YAML) for Prometheus."""
    click.echo(yaml_of(alerts()), nl=False)
