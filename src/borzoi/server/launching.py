"""What every start does before anything is opened, whether one process serves or several."""

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from borzoi.model.errors import BorzoiError
from borzoi.model.value import Value
from borzoi.server import exit_statuses
from borzoi.server.config import Configuration
from borzoi.server.data_directory import DataDirectory, keep_private
from borzoi.server.descriptor_limit import raise_to_hard_limit
from borzoi.server.logs import start_logging
from borzoi.server.neighbours import refuse_to_share
from borzoi.server.placement import ALONE, Placement

log = logging.getLogger(__name__)


class Start(Value):
    """What a server is started with."""

    configuration: Configuration
    fresh: bool
    default_credentials: bool
    follower: bool
    environment: Mapping[str, str]
    placement: Placement = ALONE


def launch(start: Start, serve: Callable[[Start, DataDirectory], int]) -> int:
    """Lock the data directory, set up logging, and serve; return the exit status."""
    settings = start.configuration.settings
    keep_private()
    try:
        if settings.tcp.enabled:
            refuse_to_share("tcp.address", settings.tcp.address)
        with DataDirectory(Path(settings.system.path)) as directory:
            if start.fresh:
                # Imported here: it imports every part of the server, and few starts need it.
                from borzoi.server.emptying import empty, own_directories

                empty(directory.path, own_directories(settings))
            start_logging(settings.system.logging, directory.path)
            for warning in (directory.open_to_others, *start.placement.warnings):
                if warning is not None:
                    log.warning("%s", warning)
            raise_to_hard_limit()
            return serve(start, directory)
    except (BorzoiError, OSError) as fault:
        print(f"borzoi cannot start: {fault}", file=sys.stderr)
        return exit_statuses.CANNOT_START
