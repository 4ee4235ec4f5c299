"""What each signal does, from the beginning of a start to the end of a stop.

======================  ===========================================================
SIGTERM SIGINT SIGQUIT  stop gracefully: everything is saved, the exit status is 0
SIGHUP                  nothing, but a line in the log: no setting can be read again
SIGUSR1                 write all tasks and stacks to the log
======================  ===========================================================

Without a handler each of them would end the process and lose buffered messages. Before the event
loop handles signals a stop is an exception: the files are as safe as in a crash, and a long start
can be interrupted.
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
    """A signal requested a stop before the server was ready. Must not be caught as an error."""


def before_serving() -> None:
    """Install the handlers; called first, on the main thread."""
    for number in STOPPING:
        signal.signal(number, _request_stop)
    for number in HARMLESS:
        signal.signal(number, signal.SIG_IGN)


def hold_back() -> None:
    """Block the signals while the event loop is created, which must not be interrupted, or while a
    process is started, which cannot handle them yet."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*STOPPING, *HARMLESS))


def let_through() -> None:
    """Unblock them; a pending stop raises in the caller if nothing else handles it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOPPING, *HARMLESS))


def while_serving(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Handle signals in the event loop from now on, by calling `stop`."""
    for number in STOPPING:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, _say_that_nothing_is_read_again)
    loop.add_signal_handler(signal.SIGUSR1, _dump)


def after_serving() -> None:
    """Ignore further signals: they must not change the exit status of a successful stop."""
    for number in (*STOPPING, *HARMLESS):
        signal.signal(number, signal.SIG_IGN)


def _request_stop(number: int, _: FrameType | None) -> None:
    raise StopRequested(signal.Signals(number).name)


def _say_that_nothing_is_read_again() -> None:
    log.warning("SIGHUP is ignored: settings are read at a start only")


def _dump() -> None:
    log.warning("tasks and stacks, because of SIGUSR1:\n%s", stacks())
