import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from borzoi.server.placement import ALONE, Cpu, Topology, placed
from borzoi.server.topology import (
    cpu_quota,
    memory_bytes,
    number_list,
    placement_fault,
    placement_of,
    topology,
)

TWO_NODES = {
    "sys/devices/system/cpu/present": "0-7\n",
    "sys/devices/system/node/node0/cpulist": "0-1,4-5\n",
    "sys/devices/system/node/node1/cpulist": "2-3,6-7\n",
    **{
        f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list": (
            f"{number % 4},{number % 4 + 4}\n"
        )
        for number in range(8)
    },
}


def laid_out(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_nodes_and_hyper_threads_are_found(tmp_path: Path) -> None:
    found = topology(laid_out(tmp_path, TWO_NODES), {0, 2, 6, 5})
    assert found == Topology((Cpu(0, 0, 0), Cpu(2, 1, 2), Cpu(5, 0, 1), Cpu(6, 1, 2)), 8)


def test_a_machine_that_shows_nothing_has_one_node(tmp_path: Path) -> None:
    assert topology(tmp_path, {1, 3}) == Topology((Cpu(1, 0, 1), Cpu(3, 0, 3)), 4)


def test_this_machine_can_be_read() -> None:
    found = topology()
    assert {cpu.number for cpu in found.cpus} == os.sched_getaffinity(0)
    assert found.machine_count >= len(found.cpus)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-3,8,10-11\n", [0, 1, 2, 3, 8, 10, 11]), ("5", [5]), ("", []), ("x-3,4", [4])],
)
def test_lists_of_the_kernel_are_read(text: str, numbers: list[int]) -> None:
    assert number_list(text) == numbers


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/outer/inner\n",
                "sys/fs/cgroup/outer/inner/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/outer/cpu.max": "300000 100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/docker/abc\n0::/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_the_limit_of_a_container_is_found(
    tmp_path: Path, files: Mapping[str, str], quota: float | None
) -> None:
    assert cpu_quota(laid_out(tmp_path, files)) == quota
    assert topology(tmp_path, {0}).quota == quota


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({}, None),
        ({"proc/meminfo": "MemTotal:  8000 kB\nMemFree: 1 kB\n"}, 8_192_000),
        (
            {
                "proc/meminfo": "MemTotal:  8000 kB\n",
                "proc/self/cgroup": "0::/a\n",
                "sys/fs/cgroup/a/memory.max": "max\n",
                "sys/fs/cgroup/memory.max": "4096000\n",
            },
            4_096_000,
        ),
        (
            {
                "proc/meminfo": "MemTotal:  8000 kB\n",
                "proc/self/cgroup": "3:cpu:/a\n4:memory:/b\n",
                "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "9223372036854771712\n",
            },
            8_192_000,
        ),
    ],
)
def test_memory_is_that_of_the_machine_or_less_in_a_container(
    tmp_path: Path, files: Mapping[str, str], size: int | None
) -> None:
    assert memory_bytes(laid_out(tmp_path, files)) == size
    assert topology(tmp_path, {0}).memory_bytes == size


def test_shards_are_placed_on_this_machine() -> None:
    assert placement_of("1") == ALONE
    assert placement_of("all") == placed("all", topology())
    assert placement_fault("all") is None
    fault = placement_fault("0..128")
    assert fault is None or fault.startswith("system.sharding.cpu_allocation: 0..128 is not")
    assert "there is no node 4000" in str(placement_fault("numa:nodes=4000"))
