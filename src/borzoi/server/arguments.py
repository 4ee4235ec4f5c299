"""``borzoi serve`` and its flags, which are those of 0.8."""

import gc
import os
import sys
from pathlib import Path

import click

from borzoi import __version__
from borzoi.model.errors import BorzoiError
from borzoi.server import exit_statuses
from borzoi.server.config import check_follower, load
from borzoi.server.descriptor_limit import refuse_too_few
from borzoi.server.signals import StopRequested, after_serving, before_serving
from borzoi.server.topology import placement_of


@click.command()
@click.option(
    "-c",
    "--config-provider",
    type=click.Choice(["file"]),
    default="file",
    help="Where settings come from; only 'file', which BORZOI_CONFIG_PATH names.",
)
@click.option("-f", "--fresh", is_flag=True, help="Delete the data directory first.")
@click.option(
    "--with-default-root-credentials",
    is_flag=True,
    help="Name the first user iggy, with the password iggy, unless the environment says otherwise.",
)
@click.option("--follower", is_flag=True, help="Report this node as a follower to clients.")
@click.version_option(__version__, "-V", "--version", prog_name="borzoi")
def serve(
    config_provider: str, fresh: bool, with_default_root_credentials: bool, follower: bool
) -> None:
    """Start the server and serve until a signal stops it."""
    del config_provider
    try:
        sys.exit(_serve(fresh, with_default_root_credentials, follower))
    except StopRequested as stop:
        click.echo(f"borzoi stopped before it was ready, because of {stop}", err=True)
        sys.exit(0)


def _serve(fresh: bool, with_default_root_credentials: bool, follower: bool) -> int:
    try:
        refuse_too_few()
        configuration = load(os.environ, Path.cwd())
        placement = placement_of(configuration.settings.system.sharding.cpu_allocation)
        if follower:
            check_follower(configuration.settings)
    except BorzoiError as fault:
        click.echo(f"borzoi cannot start: {fault}", err=True)
        return exit_statuses.INVALID_SETTINGS
    before_serving()
    # Imported late, so that a wrong setting is reported at once. Imports create no garbage, so
    # collections meanwhile would find nothing, and take a twentieth of the start.
    gc.disable()
    from borzoi.server.launching import Start, launch

    if len(placement.seats) == 1:
        from borzoi.server.process import serve_alone as serve
    else:
        from borzoi.server.supervisor import supervise as serve
    gc.enable()
    start = Start(
        configuration,
        fresh=fresh,
        default_credentials=with_default_root_credentials,
        follower=follower,
        environment=dict(os.environ),
        placement=placement,
    )
    status = launch(start, serve)
    after_serving()
    return status
