"""What a server that a test runs itself is started with."""

from collections.abc import Mapping
from pathlib import Path

from borzoi.server.config import load
from borzoi.server.launching import Start
from borzoi.server.placement import ALONE, Placement


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
