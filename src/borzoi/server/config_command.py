"""``borzoi config``: inspect the settings without starting anything."""

import json
import os
import sys
from pathlib import Path

import click

from borzoi.model.errors import BorzoiError
from borzoi.server.config import KEYS, Configuration, load, parts_not_there
from borzoi.server.data_directory import directory_fault
from borzoi.server.declaring import shown_section
from borzoi.server.logs import log_fault
from borzoi.server.schema import json_schema, markdown_table
from borzoi.server.toml import written
from borzoi.server.topology import placement_fault


@click.group()
def config() -> None:
    """Check, show and describe the settings."""


def _loaded() -> Configuration:
    try:
        return load(os.environ, Path.cwd())
    except BorzoiError as fault:
        click.echo(str(fault), err=True)
        sys.exit(1)


@config.command()
def check() -> None:
    """Check whether a server would start with the settings of this folder and environment."""
    loaded = _loaded()
    for line in parts_not_there(loaded):
        click.echo(f"note: {line}")
    system = loaded.settings.system
    data = Path(system.path)
    checks = (
        placement_fault(system.sharding.cpu_allocation),
        directory_fault(data),
        log_fault(system.logging, data),
    )
    faults = [fault for fault in checks if fault]
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}; it has no effect", err=True)
    for fault in faults:
        click.echo(fault, err=True)
    if faults:
        click.echo(f"{loaded.origin}: a server would not start")
    elif loaded.warnings:
        count = len(loaded.warnings)
        click.echo(
            f"{loaded.origin}: a server would start, without {count}"
            f" setting{'s' if count > 1 else ''} that it does not know"
        )
    else:
        click.echo(f"{loaded.origin}: all settings are valid")
    sys.exit(1 if faults or loaded.warnings else 0)


@config.command()
def show() -> None:
    """Print the settings in force, as TOML, with secrets masked."""
    click.echo(written(shown_section(_loaded().settings)), nl=False)


@config.command()
@click.option("--format", "form", type=click.Choice(["json", "markdown"]), default="json")
def schema(form: str) -> None:
    """Print every key with its default and meaning: a JSON schema, or a table."""
    if form == "markdown":
        click.echo(markdown_table(KEYS), nl=False)
    else:
        click.echo(json.dumps(json_schema(KEYS), indent=2))
