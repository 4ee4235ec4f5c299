"""Ids for messages that came without one: random UUIDs, version 4, in the byte order of UUIDs.

::

    bytes    field
    0..6     random
    6        0x40 | 4 random bits      the version
    7        random
    8        0x80 | 6 random bits      the variant
    9..16    random
"""

import struct
from array import array
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from borzoi.records import accelerator

ID_BYTES: Final = 16

#: Ids from the same entropy. The accelerator has the same number.
BLOCK: Final = 4096
ENTROPY_BYTES: Final = 16
_two_words: Final = struct.Struct("<QQ").unpack

#: None where the accelerator was not built, and in tests of what runs without it.
native: accelerator.Native | None = accelerator.native

# The fixed bits in the two little-endian words of an id. For a whole block, because numpy works
# through one run of words five times as fast as through every second word of it.
RANDOM_BITS: Final = np.tile(np.array([0xFF0F_FFFF_FFFF_FFFF, ~0xC0 % 2**64], "<u8"), BLOCK)
FIXED_BITS: Final = np.tile(np.array([0x0040_0000_0000_0000, 0x80], "<u8"), BLOCK)

# SplitMix64: a counter that steps by the golden ratio, and a mixer that hides the steps.
GOLDEN: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
FIRST_MIX: Final = np.uint64(0xBF58_476D_1CE4_E5B9)
SECOND_MIX: Final = np.uint64(0x94D0_49BB_1331_11EB)
STEPS: Final = np.arange(2 * BLOCK, dtype=np.uint64) * GOLDEN


class FreshIds:
    """Called with a count, gives that many ids. `entropy(n)` returns n random bytes, e.g.
    `os.urandom`.

    Each block of ids takes 16 bytes of entropy. Half of it is where the counter starts, the other
    half changes what comes of it: words of one block never repeat, and ids of two blocks are equal
    only if 128 random bits agree. Many times faster than Python's generator, and nothing to load.
    """

    __slots__ = ("_entropy", "_made", "generator")

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        self._entropy = entropy
        #: The entropy of a block as two words, and how many of its ids are used. The accelerator
        #: draws from it while it stamps, and calls for one id when all are used.
        self.generator = array("Q", (0, 0, BLOCK))
        #: The ids of the block, where there is no accelerator.
        self._made: bytes | None = None

    def __call__(self, count: int) -> bytes:
        left = BLOCK - self.generator[2]
        if count <= left:
            return self._taken(count)
        pieces = [self._taken(left)]
        while count > left:
            count -= left
            self._begin_block()
            left = BLOCK
            pieces.append(self._taken(min(count, left)))
        return b"".join(pieces)

    def _begin_block(self) -> None:
        generator = self.generator
        generator[0], generator[1] = _two_words(self._entropy(ENTROPY_BYTES))
        generator[2] = 0
        self._made = None

    def _taken(self, count: int) -> bytes:
        """Ids of this block, which has that many left."""
        if native is not None:
            return native.uuids(self.generator, count)
        start, change, used = self.generator
        made = self._made
        if made is None:
            made = self._made = as_uuids(mixed_words(start, change, 2 * BLOCK))
        self.generator[2] = used + count
        return made[used * ID_BYTES : (used + count) * ID_BYTES]


def as_uuids(words: NDArray[np.uint64]) -> bytes:
    """Two random words per id, at most those of a block; version and variant put in."""
    ids: NDArray[np.uint64] = words & RANDOM_BITS[: len(words)]
    ids |= FIXED_BITS[: len(words)]
    return ids.astype("<u8", copy=False).tobytes()


def mixed_words(start: int, change: int, count: int) -> NDArray[np.uint64]:
    """A counter that begins at `start`, mixed, and changed; at most those of a block."""
    words: NDArray[np.uint64] = STEPS[:count] + np.uint64(start)
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= FIRST_MIX
    np.right_shift(words, np.uint64(27), out=shifted)
    words ^= shifted
    words *= SECOND_MIX
    np.right_shift(words, np.uint64(31), out=shifted)
    words ^= shifted
    words ^= np.uint64(change)
    return words
