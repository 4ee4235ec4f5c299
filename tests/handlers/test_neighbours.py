from borzoi.diagnostics.host import Usage
from borzoi.handlers.neighbours import ShardUsage, summed


def test_what_processes_use_is_added_and_what_the_machine_has_is_not() -> None:
    def usage(shard: int) -> ShardUsage:
        return ShardUsage(
            shard,
            100 + shard,
            0.0,
            1,
            Usage(
                cpu_percent=10.0,
                total_cpu_percent=50.0,
                memory_bytes=5,
                total_memory_bytes=1000,
                read_bytes=1,
                written_bytes=2,
                threads=3,
                free_disk_bytes=7,
            ),
        )

    found = summed([usage(0), usage(1)])
    assert (found.cpu_percent, found.total_cpu_percent) == (20.0, 50.0)
    assert (found.memory_bytes, found.total_memory_bytes) == (10, 1000)
    assert (found.read_bytes, found.written_bytes, found.threads) == (2, 4, 6)
    assert found.free_disk_bytes == 7
