"""What each signal does, from the first moment of a start to the last of a stop.

======================  ===========================================================
SIGTERM SIGINT SIGQUIT  stop gracefully: everything is saved, the exit status is 0
SIGHUP                  nothing, but a line in the log: no setting can be read again
SIGUSR1                 write all tasks and stacks to the log
======================  ===========================================================

Without a handler each of them would end the process, and buffered messages with it. Before the
event loop can take them a stop is an exception: what is on the disk is as safe as in a crash, and
a start that takes long need not be waited for.
"""

import asyncio
import logging
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

from borzoi.diagnostics.stacks import stacks

log = logging.getLogger(__name__)

STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
HARMLESS: Final = (signal.SIGHUP, signal.SIGUSR1)


class StopRequested(BaseException):
    """A signal asked for a stop before the server was ready. No handler of errors may keep it."""


def before_serving() -> None:
    """Take the signals over from Python and the system; on the main thread, first of all."""
    for number in STOPPING:
        signal.signal(number, _request_stop)
    for number in HARMLESS:
        signal.signal(number, signal.SIG_IGN)


def hold_back() -> None:
    """Keep stops waiting while the event loop is made: an exception would leave half of one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def let_through() -> None:
    """Deliver what was held back, as an exception of the caller."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def while_serving(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """From now on signals are events of the loop, and `stop` is called for one."""
    for number in STOPPING:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, _say_that_nothing_is_read_again)
    loop.add_signal_handler(signal.SIGUSR1, _dump)


def after_serving() -> None:
    """The end is near: a second signal must not change the exit status of a stop that succeeded."""
    for number in (*STOPPING, *HARMLESS):
        signal.signal(number, signal.SIG_IGN)


def _request_stop(number: int, _: FrameType | None) -> None:
    raise StopRequested(signal.Signals(number).name)


def _say_that_nothing_is_read_again() -> None:
    log.warning("SIGHUP is ignored: settings are read at a start only")


def _dump() -> None:
    log.warning("tasks and stacks, because of SIGUSR1:\n%s", stacks())
