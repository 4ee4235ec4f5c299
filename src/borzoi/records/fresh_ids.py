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

from borzoi.records import accelerator

ID_BYTES: Final = 16

#: Ids made at a time: 64 KiB of them, so that a small batch only takes a slice.
BLOCK: Final = 4096
#: Words in the ids of one draw.
WORDS: Final = 2 * BLOCK

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


def mixed_words(entropy: Callable[[int], bytes]) -> Callable[[int], NDArray[np.uint64]]:
    """Gives up to WORDS random words from 16 bytes of entropy each time.

    Half of the entropy is where the counter starts, the other half changes what comes of it: words
    of one call never repeat, and ids of two calls are equal only if 128 random bits agree. Many
    times faster than Python's generator, and nothing to load. What is given holds until the next
    call.
    """

    steps = np.arange(WORDS, dtype=np.uint64) * GOLDEN
    # Used again, because memory that is new each time costs more than the arithmetic.
    kept = np.empty((2, WORDS), np.uint64)

    def draw(count: int) -> NDArray[np.uint64]:
        words: NDArray[np.uint64] = kept[0, :count]
        if native is not None:
            native.mix(words, entropy(16))
            return words
        start, change = np.frombuffer(entropy(16), "<u8")
        np.add(steps[:count], start, out=words)
        _mix(words, kept[1, :count])
        words ^= change
        return words

    return draw


def _mix(words: NDArray[np.uint64], shifted: NDArray[np.uint64]) -> None:
    """In place; `shifted` is memory to work with."""
    np.right_shift(words, np.uint64(30), out=shifted)
    words ^= shifted
    words *= FIRST_MIX
    np.right_shift(words, np.uint64(27), out=shifted)
    words ^= shifted
    words *= SECOND_MIX
    np.right_shift(words, np.uint64(31), out=shifted)
    words ^= shifted


class FreshIds:
    """Called with a count, gives that many ids.

    `draw(WORDS)` returns that many random words, e.g. `mixed_words(os.urandom)`; it must not be
    shared.
    """

    __slots__ = ("_draw", "_next", "_ready")

    def __init__(self, draw: Callable[[int], NDArray[np.uint64]]) -> None:
        self._draw = draw
        self._ready = b""
        self._next = 0

    def __call__(self, count: int) -> bytes:
        start = self._next
        end = start + count * ID_BYTES
        if end > len(self._ready):
            blocks = -(-count // BLOCK)
            self._ready = b"".join([as_uuids(self._draw(WORDS)) for _ in range(blocks)])
            start, end = 0, count * ID_BYTES
        self._next = end
        return self._ready[start:end]


def as_uuids(words: NDArray[np.uint64]) -> bytes:
    """Two random words per id, at most WORDS, which are used up; version and variant put in."""
    if native is not None:
        return native.uuids(words)
    words &= RANDOM_BITS[: len(words)]
    words |= FIXED_BITS[: len(words)]
    return words.astype("<u8", copy=False).tobytes()
