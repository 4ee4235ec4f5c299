"""Which descriptors of this process are open."""

import errno
import os


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError as fault:
        if fault.errno != errno.EBADF:
            raise
        return False
    return True
