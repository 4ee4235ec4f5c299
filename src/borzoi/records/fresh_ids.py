"""Ids for messages that came without one: random UUIDs, version 4, in the byte order of UUIDs.

::

    bytes    field
    0..6     random
    6        0x40 | 4 random bits      the version
    7        random
    8        0x80 | 6 random bits      the variant
    9..16    random
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

ID_BYTES: Final = 16

#: Ids made at a time: 64 KiB of them, so that a small batch only takes a slice.
BLOCK: Final = 4096

# The same bits in the two little-endian words of an id.
VERSION_MASK: Final = np.uint64(0x00F0_0000_0000_0000)
VERSION: Final = np.uint64(0x0040_0000_0000_0000)
VARIANT_MASK: Final = np.uint64(0xC0)
VARIANT: Final = np.uint64(0x80)


class FreshIds:
    """Called with a count, gives that many ids.

    `draw(n)` gives n random words, e.g. `numpy.random.SFC64().random_raw`; nobody may share it.
    """

    __slots__ = ("_draw", "_next", "_ready")

    def __init__(self, draw: Callable[[int], NDArray[np.uint64]]) -> None:
        self._draw = draw
        self._ready = b""
        self._next = 0

    def __call__(self, count: int) -> bytes:
        end = self._next + count * ID_BYTES
        if end > len(self._ready):
            self._ready = as_uuids(self._draw(2 * max(count, BLOCK)))
            self._next, end = 0, count * ID_BYTES
        ids = self._ready[self._next : end]
        self._next = end
        return ids


def as_uuids(words: NDArray[np.uint64]) -> bytes:
    """Two random words per id, with version and variant put in, in place."""
    first, second = words[::2], words[1::2]
    first &= ~VERSION_MASK
    first |= VERSION
    second &= ~VARIANT_MASK
    second |= VARIANT
    return words.astype("<u8", copy=False).tobytes()
