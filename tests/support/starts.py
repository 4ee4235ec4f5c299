"""What a server that a test runs itself is started with, and its settings."""

from collections.abc import Mapping
from pathlib import Path

from borzoi.server.config import load
from borzoi.server.launching import Start
from borzoi.server.placement import ALONE, Placement
from borzoi.server.settings import Settings


def start_with(
    environment: Mapping[str, str],
    folder: Path,
    *,
    fresh: bool = False,
    placement: Placement = ALONE,
) -> Start:
    """Default credentials, and settings from the environment or a file in the folder."""
    return Start(
        load(environment, folder),
        fresh=fresh,
        default_credentials=True,
        follower=False,
        environment=environment,
        placement=placement,
    )


def settings_with(folder: Path, **variables: str) -> Settings:
    """The settings with these variables, named without their prefix, or a file in the folder."""
    return load({f"BORZOI_{name}": value for name, value in variables.items()}, folder).settings
