"""Binds a process to its seat: a processor, and the NUMA node of its memory.

Both only affect speed. If the system refuses, the kernel chooses, and a warning is logged.
"""

import ctypes
import os
import platform
from typing import Final

from borzoi.server.placement import Seat

#: Prefer memory of the node. MPOL_BIND would let the kernel kill a shard whose node is exhausted,
#: although others have memory left.
MPOL_PREFERRED: Final = 1
#: The C library has no function for it without libnuma, so it is called by its number.
SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237, "riscv64": 237}
NODES_MAX: Final = 1024
WORD_BITS: Final = 64


def take_seat(seat: Seat) -> list[str]:
    """Bind this process and its future threads; return a warning for each refusal."""
    refusals = []
    if seat.cpu is not None:
        try:
            os.sched_setaffinity(0, {seat.cpu})
        except OSError as fault:
            why = fault.strerror
            refusals.append(f"this process is not bound to processor {seat.cpu}: {why}")
    if seat.node is not None:
        refusal = prefer_memory_of(seat.node)
        if refusal is not None:
            refusals.append(f"memory is not taken from node {seat.node} first: {refusal}")
    return refusals


def prefer_memory_of(node: int) -> str | None:
    """Prefer memory of the node from now on; return why that is impossible, or None."""
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None or not 0 <= node < NODES_MAX:
        return "not supported here"
    words = [0] * (NODES_MAX // WORD_BITS)
    words[node // WORD_BITS] = 1 << node % WORD_BITS
    mask = (ctypes.c_ulong * len(words))(*words)
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel reads one bit less than the given count.
    if libc.syscall(number, MPOL_PREFERRED, mask, ctypes.c_ulong(NODES_MAX + 1)) == 0:
        return None
    return os.strerror(ctypes.get_errno())
