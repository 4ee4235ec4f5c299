"""The exit statuses of a server."""

import signal
from typing import Final

OK: Final = 0
CANNOT_START: Final = 1
INVALID_SETTINGS: Final = 2
#: Failed after it had served.
FAILED: Final = 70


def ending(status: int) -> str:
    """Describe how a process ended; a negative status is the signal that ended it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
