"""How many partitions a server takes on: as many as fit into half of the memory it may use.

Files are opened on demand, so descriptors bound nothing here. What a partition costs for as long as
it exists is memory, and whoever may create topics could otherwise take all of it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: What a partition without messages needs, and some more for its metadata.
PARTITION_BYTES: Final = 8 << 10
#: Even on the smallest machine, so that a wrong guess about its memory locks nobody out.
PARTITIONS_MIN: Final = 10_000
#: Where a container is told how much memory it has, in the two versions of control groups.
CONTROL_GROUPS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def partitions_max(limits: Iterable[Path] = CONTROL_GROUPS) -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in limits:
        try:
            memory = min(memory, int(path.read_text()))
        except (OSError, ValueError):
            continue  # there is no such file, or it says "max"
    return max(memory // 2 // PARTITION_BYTES, PARTITIONS_MIN)
