"""The processors of this machine, as the kernel shows them below ``/sys`` and ``/proc``.

If something cannot be read, one node and no hyper-threads are assumed: a badly placed server still
serves.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.placement import (
    ALONE,
    Count,
    Cpu,
    Placement,
    Topology,
    parsed_allocation,
    placed,
)

ROOT: Final = Path("/")
CPUS: Final = "sys/devices/system/cpu"
NODES: Final = "sys/devices/system/node"
CGROUPS: Final = "sys/fs/cgroup"


def placement_of(allocation: str) -> Placement:
    """Return where the shards of a server on this machine run."""
    # One process needs no placement.
    return ALONE if parsed_allocation(allocation) == Count(1) else placed(allocation, topology())


def placement_fault(allocation: str) -> str | None:
    """Return what would prevent a server from placing its shards on this machine."""
    try:
        placement_of(allocation)
    except InvalidConfiguration as fault:
        return str(fault)
    return None


def topology(root: Path = ROOT, usable: set[int] | None = None) -> Topology:
    """Read what this process may use; tests pass another `root`."""
    if usable is None:
        usable = os.sched_getaffinity(0)
    node_of = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in sorted((root / NODES).glob("node[0-9]*"))
        for cpu in number_list(_text(folder / "cpulist"))
    }
    cpus = tuple(
        Cpu(number, node_of.get(number, 0), _core_of(root, number)) for number in sorted(usable)
    )
    present = number_list(_text(root / CPUS / "present")) or sorted(usable)
    return Topology(cpus, max(present) + 1, cpu_quota(root), memory_bytes(root))


def number_list(text: str) -> list[int]:
    """The numbers of a list as the kernel writes it: ``0-3,8,10-11``."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() or not last):
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _core_of(root: Path, number: int) -> int:
    siblings = _text(root / CPUS / f"cpu{number}" / "topology" / "thread_siblings_list")
    return min(number_list(siblings), default=number)


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the CPU quota of this process's control groups, in processors; None for no limit."""
    quotas = [quota for quota in _quotas(root) if quota is not None]
    return min(quotas, default=None)


def _quotas(root: Path) -> Iterator[float | None]:
    for folder, version in _groups(root, "cpu"):
        if version == 2:
            yield _divided(*_text(folder / "cpu.max").split())
        else:
            quota = _text(folder / "cpu.cfs_quota_us")
            yield _divided(*quota.split(), *_text(folder / "cpu.cfs_period_us").split())


def memory_bytes(root: Path = ROOT) -> int | None:
    """The memory of the machine, or what the control groups of this process allow of it."""
    _, found, rest = _text(root / "proc/meminfo").partition("MemTotal:")
    limits = [int(rest.split()[0]) * 1024] if found else []
    for folder, version in _groups(root, "memory"):
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        limit = _text(folder / name).strip()
        if limit.isdecimal():
            limits.append(int(limit))
    return min(limits, default=None)


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the folder of every group from the process up to the root, and its version."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        base, version = root / CGROUPS, 2
        if controllers:
            if controller not in controllers.split(","):
                continue
            base, version = base / controller, 1
        folder = base / path.strip("/")
        yield folder, version
        while folder != base:
            folder = folder.parent
            yield folder, version


def _divided(*words: str) -> float | None:
    """Of ``max 100000`` and ``-1 100000`` nothing: both mean no limit."""
    if len(words) != 2 or not all(word.isdecimal() for word in words) or words[1] == "0":
        return None
    return int(words[0]) / int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
