"""Which processors a program and its load run on.

Left alone, the scheduler puts both on one processor or on two, and changes its mind within seconds.
A program that sleeps after each answer is twice as fast where it shares the processor of its load,
because nobody has to wake up the other one; a server that stays awake for a moment is not. Two
programs can be compared only in the same place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def placed(program: int, *, is_shared: bool) -> Iterator[None]:
    """Run the load, which is this thread, on the last processor, and a program on the same one or
    on the others."""
    usable = os.sched_getaffinity(0)
    last = {max(usable)}
    try:
        os.sched_setaffinity(program, last if is_shared else (usable - last or last))
        os.sched_setaffinity(0, last)
        yield
    finally:
        os.sched_setaffinity(0, usable)
        os.sched_setaffinity(program, usable)
