"""What the exit status of a server means."""

import signal
from typing import Final

OK: Final = 0
CANNOT_START: Final = 1
INVALID_SETTINGS: Final = 2
#: It served, and then it failed.
FAILED: Final = 70


def ending(status: int) -> str:
    """How a process ended, for people; a negative status is the signal that ended it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
