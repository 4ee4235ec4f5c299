"""Which processors a program and its load run on.

Left alone, the scheduler puts both on one processor or on two, and changes its mind within seconds.
A program that sleeps after each answer is twice as fast where it shares the processor of its load,
because nobody has to wake up the other one; a server that stays awake for a moment is not. Two
programs can be compared only in the same place.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def placed(program: int, *, is_shared: bool) -> Iterator[None]:
    """Run the load, which is this thread, on the last processor, and a program on the same one or
    on the others."""
    usable = os.sched_getaffinity(0)
    last = {max(usable)}
    with apart([program], load=last, others=last if is_shared else (usable - last or last)):
        yield


@contextmanager
def apart(
    programs: Collection[int], *, load: Collection[int], others: Collection[int]
) -> Iterator[None]:
    """Run the load, which is this thread and those it starts, on some processors, and all threads
    of the programs on others."""
    usable = os.sched_getaffinity(0)
    try:
        for program in programs:
            _bind(program, others)
        os.sched_setaffinity(0, load)
        yield
    finally:
        os.sched_setaffinity(0, usable)
        for program in programs:
            _bind(program, usable)


def _bind(program: int, processors: Collection[int]) -> None:
    for thread in Path(f"/proc/{program}/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), processors)
