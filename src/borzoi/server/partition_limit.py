"""How many partitions a server accepts: as many as fit into half of the memory it may use.

Files are opened on demand, so descriptors are not the limit. A partition costs memory as long as it
exists, and a user with permission to create topics could otherwise exhaust it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Memory of an empty partition, including its metadata.
PARTITION_BYTES: Final = 8 << 10
#: The minimum on any machine, in case its memory is misjudged.
PARTITIONS_MIN: Final = 10_000
#: The memory limit of a container, in both versions of control groups.
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
