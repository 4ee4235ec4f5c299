"""Pieces of files, read so that their memory goes back to the system when they do."""

import mmap
import os
from typing import Final

#: Smaller pieces are left to the allocator, which is quicker.
MAPPED_BYTES_MIN: Final = 256 * 1024


def read_piece(descriptor: int, length: int, position: int) -> memoryview:
    """Up to `length` bytes; fewer when the file ends before.

    Pieces are read in threads, and the allocator keeps what each thread lets go of for itself:
    with pieces of 8 MiB that is soon more than all that is in use. A mapping is given back.
    """
    if not length:
        return memoryview(b"")
    is_large = length >= MAPPED_BYTES_MIN
    view = memoryview(mmap.mmap(-1, length) if is_large else bytearray(length))
    done = 0
    while done < length:
        count = os.preadv(descriptor, [view[done:]], position + done)
        if not count:
            break
        done += count
    return view[:done]
