"""An io_uring for syncs: two queues in memory shared with the kernel.

    submission entry    bytes     field          here
                        0         opcode         IORING_OP_FSYNC
                        1         flags          0
                        4..8      descriptor     of the file
                        28..32    what to sync   IORING_FSYNC_DATASYNC
                        32..40    number         comes back with the answer
    completion entry    0..8      number
                        8..12     result         0, or -errno
                        12..16    flags

Each queue is a ring of entries with a head and a tail that only count up. We add behind the tail of
the first and tell the kernel by a system call; the kernel adds behind the tail of the second and to
an eventfd. Only system calls are used, so nothing has to be compiled. A processor that keeps the
order of what it reads and writes is needed, because Python has no barriers: hence only x86-64.
"""

import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

#: Syncs in flight. The completion queue holds twice as many, so it never overflows.
ENTRIES: Final = 256

# Numbers of Linux on x86-64.
SETUP: Final = 425
ENTER: Final = 426
REGISTER: Final = 427
REGISTER_EVENTFD: Final = 4
FEAT_SINGLE_MMAP: Final = 1
OFF_SQ_RING: Final = 0
OFF_SQES: Final = 0x1000_0000
OP_FSYNC: Final = 3
FSYNC_DATASYNC: Final = 1

#: The kernel's description of a new ring: 5 words before `features`, then the offsets.
PARAMETERS: Final = struct.Struct("<2I12x1I4x12x8I8x8I8x")
SUBMISSION: Final = struct.Struct("<BBHi8x8x4xIQ24x")
COMPLETION: Final = struct.Struct("<Qi4x")
U32: Final = 2**32


class KernelRing:
    """One ring. `OSError` if the kernel provides none."""

    __slots__ = (
        "_completions",
        "_descriptor",
        "_ended_head_at",
        "_ended_mask",
        "_ended_tail_at",
        "_entries",
        "_memory",
        "_queue_mask",
        "_queue_tail_at",
        "_system_call",
        "_tail",
        "_words",
        "eventfd",
    )

    def __init__(self, entries: int = ENTRIES) -> None:
        if platform.system() != "Linux" or platform.machine() != "x86_64":
            raise OSError("io_uring is used on Linux with x86-64 only")
        self._system_call = ctypes.CDLL(None, use_errno=True).syscall
        parameters = ctypes.create_string_buffer(PARAMETERS.size)
        self._descriptor = self._call(SETUP, entries, parameters)
        found = PARAMETERS.unpack(parameters.raw)
        queued, ended, features = found[:3]
        _, tail, mask, _, _, _, numbers, _ = found[3:11]
        ended_head, ended_tail, ended_mask, _, _, completions, _, _ = found[11:19]
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            if not features & FEAT_SINGLE_MMAP:
                raise OSError("this io_uring is too old")
            size = max(numbers + 4 * queued, completions + COMPLETION.size * ended)
            self._memory = mmap.mmap(self._descriptor, size, offset=OFF_SQ_RING)
            self._entries = mmap.mmap(self._descriptor, SUBMISSION.size * queued, offset=OFF_SQES)
            self._call(
                REGISTER,
                self._descriptor,
                REGISTER_EVENTFD,
                ctypes.byref(ctypes.c_int(self.eventfd)),
                1,
            )
        except OSError:
            os.close(self._descriptor)
            os.close(self.eventfd)
            raise
        words = self._words = memoryview(self._memory).cast("I")
        # Entry k of the queue is always in slot k.
        for number in range(queued):
            words[numbers // 4 + number] = number
        self._queue_tail_at, self._queue_mask = tail // 4, words[mask // 4]
        self._ended_head_at, self._ended_tail_at = ended_head // 4, ended_tail // 4
        self._ended_mask, self._completions = words[ended_mask // 4], completions
        self._tail = words[self._queue_tail_at]

    def submit(self, syncs: Sequence[tuple[int, int]]) -> int:
        """Begin `fdatasync` of (number, descriptor) pairs; return how many the kernel accepted."""
        for number, descriptor in syncs:
            at = SUBMISSION.size * (self._tail & self._queue_mask)
            SUBMISSION.pack_into(
                self._entries, at, OP_FSYNC, 0, 0, descriptor, FSYNC_DATASYNC, number
            )
            self._tail = (self._tail + 1) % U32
        self._words[self._queue_tail_at] = self._tail
        taken = 0
        with suppress(OSError):
            while taken < len(syncs):
                more = self._call(ENTER, self._descriptor, len(syncs) - taken, 0, 0, None, 0)
                if not more:
                    break
                taken += more
        return taken

    def reap(self) -> list[tuple[int, int]]:
        """Return (number, errno) of the completed syncs; errno 0 is success."""
        # The eventfd first: what ends after this makes it readable again.
        with suppress(BlockingIOError):
            os.eventfd_read(self.eventfd)
        words = self._words
        head, tail = words[self._ended_head_at], words[self._ended_tail_at]
        ended = []
        while head != tail:
            at = self._completions + COMPLETION.size * (head & self._ended_mask)
            number, result = COMPLETION.unpack_from(self._memory, at)
            ended.append((number, -result))
            head = (head + 1) % U32
        words[self._ended_head_at] = head
        return ended

    def close(self) -> None:
        self._words.release()
        self._memory.close()
        self._entries.close()
        os.close(self._descriptor)
        os.close(self.eventfd)

    def _call(self, number: int, *arguments: object) -> int:
        result: int = self._system_call(number, *arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result
