"""Reads pieces of files so that their memory is returned to the system when they are freed."""

import mmap
import os
from typing import Final

#: Smaller pieces are left to the allocator, which is quicker.
MAPPED_BYTES_MIN: Final = 256 * 1024


def read_piece(descriptor: int, length: int, position: int) -> memoryview:
    """Read up to `length` bytes; fewer at the end of the file.

    Pieces are read in threads, and the allocator keeps what each thread frees in its arena: with
    pieces of 8 MiB that soon exceeds the memory in use. A mapping is returned to the system.
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
