from pathlib import Path

from borzoi.diagnostics.host import Host


def test_a_sample_describes_this_process_and_its_machine(tmp_path: Path) -> None:
    host = Host(tmp_path)
    first, second = host.sample(), host.sample()
    assert first.cpu_percent == 0.0
    assert second.memory_bytes > 1 << 20
    assert second.total_memory_bytes >= second.available_memory_bytes > 0
    assert second.total_disk_bytes >= second.free_disk_bytes > 0
    assert second.threads >= 1
    assert 0 <= second.total_cpu_percent <= 100
    assert host.run_seconds >= 0
    assert host.usage is second
    assert host.os_name
