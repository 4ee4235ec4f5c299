"""What the kernel does with our children, and with us, when a parent dies."""

import ctypes
import os
import signal
from typing import Final

#: The numbers of the requests in <sys/prctl.h>.
PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36


def die_with_parent() -> None:
    """Be killed when the process that is our parent now dies. A copy of this process is not."""
    _request(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def adopt_grandchildren() -> None:
    """Become the parent of a process whose own parent, a descendant of ours, has ended."""
    _request(PR_SET_CHILD_SUBREAPER, 1)


def _request(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
