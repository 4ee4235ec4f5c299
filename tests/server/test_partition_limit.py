import os
from pathlib import Path

from borzoi.server.partition_limit import PARTITION_BYTES, PARTITIONS_MIN, partitions_max


def test_half_of_the_memory_is_for_partitions() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert partitions_max([]) == memory // 2 // PARTITION_BYTES


def test_a_container_has_what_it_is_told_to_have(tmp_path: Path) -> None:
    limit, unlimited = tmp_path / "limit", tmp_path / "unlimited"
    limit.write_text(f"{1 << 30}\n")
    unlimited.write_text("max\n")
    assert partitions_max([unlimited, tmp_path / "missing", limit]) == 65_536
    assert partitions_max([unlimited]) == partitions_max([])


def test_the_smallest_machine_has_some(tmp_path: Path) -> None:
    (tmp_path / "limit").write_text("1000000")
    assert partitions_max([tmp_path / "limit"]) == PARTITIONS_MIN
