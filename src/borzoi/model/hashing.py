"""MurmurHash3 (x86, 32 bits), which places partitions on shards.

It runs once per partition, so it is written out here rather than taken from a library.
"""

from borzoi.model.limits import U32_MAX

C1 = 0xCC9E2D51
C2 = 0x1B873593


def _rotate_left(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & U32_MAX


def _scrambled(block: int) -> int:
    return _rotate_left(block * C1 & U32_MAX, 15) * C2 & U32_MAX


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """The 32-bit hash of the data."""
    state = seed
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        state ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotate_left(state, 13) * 5 + 0xE6546B64) & U32_MAX
    state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ state >> shift) * factor & U32_MAX
    return state
