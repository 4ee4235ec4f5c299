"""When a write is durable, and what a device does that fails, lags or lies."""

from random import Random

from borzoi.consensus.checkpoint import Checkpoint, Manifest
from borzoi.consensus.config import Config
from borzoi.consensus.frames import root, seal_prepare
from borzoi.consensus.messages import ZERO
from borzoi.simulator.disk import Disk
from borzoi.simulator.events import EventQueue
from borzoi.simulator.volume import Volume

CONFIG = Config(cluster=bytes(range(16)), replica_id=0, replica_count=3)


def prepare(op: int):
    first = root(CONFIG.cluster, 0)
    return seal_prepare(first._replace(op=op, client=ZERO, timestamp=op, view=1))


class Bench:
    """A disk with one volume, and what it reported."""

    def __init__(self, seed: int = 1) -> None:
        self.events = EventQueue()
        self.done: list[tuple[str, int]] = []
        self.failures: list[str] = []
        self.disk = Disk(0, 3, 1, self.events, Random(seed), self._completed, self.failures.append)

    def _completed(self, group, what, token):
        self.done.append((what, token))

    def write(self, *ops_written):
        for op in ops_written:
            self.disk.write_journal(0, prepare(op), b"body", op, None)

    def run(self):
        while (tick := self.events.next_tick()) is not None:
            self.events.run_tick(tick)

    @property
    def volume(self) -> Volume:
        return self.disk.volumes[0]

    def ops(self):
        return [record.header.op for record in self.volume.records]


def test_everything_queued_shares_the_next_sync():
    bench = Bench()
    bench.write(1, 2, 3)
    bench.run()
    assert bench.done == [("journal", 1), ("journal", 3)]
    assert bench.ops() == [1, 2, 3]


def test_a_record_counts_as_synced_only_after_its_sync():
    bench = Bench()
    bench.write(1)
    digest = prepare(1).checksum
    assert not bench.volume.is_synced(digest)
    assert bench.disk.read_journal(0, digest) == b"body"
    bench.run()
    assert bench.volume.is_synced(digest)
    assert bench.disk.read_journal(0, prepare(2).checksum) is None


def test_a_power_cut_keeps_a_prefix_of_what_was_not_synced():
    kept = set()
    for seed in range(40):
        bench = Bench(seed)
        bench.write(1)
        bench.run()
        bench.write(2, 3, 4)
        bench.disk.crash()
        bench.run()
        assert bench.ops() == [1, 2, 3, 4][: len(bench.ops())]
        assert bench.done == [("journal", 1)]
        kept.add(len(bench.ops()))
    assert kept == {1, 2, 3, 4}


def test_a_failed_sync_stops_the_process_and_reports_nothing():
    bench = Bench()
    bench.write(1)
    bench.disk.fail_next_sync("disk full")
    bench.run()
    assert bench.failures == ["disk full"]
    assert bench.done == []


def test_a_wiped_disk_is_empty():
    bench = Bench()
    bench.write(1)
    bench.run()
    life = bench.volume.life
    bench.disk.wipe()
    assert bench.ops() == []
    assert bench.volume.newest() is None
    assert bench.volume.life > life


def test_checkpoints_become_readable_after_their_sync():
    bench = Bench()
    checkpoint = Checkpoint(Manifest(prepare(5), ()), ())
    bench.disk.write_checkpoint(0, 5, checkpoint, 3)
    assert bench.volume.checkpoints == {}
    bench.run()
    assert bench.volume.checkpoints == {5: checkpoint}
    assert bench.done == [("checkpoint", 3)]


def test_a_slow_replica_takes_its_time():
    bench = Bench()
    bench.disk.slowness = 50
    bench.write(1)
    bench.run()
    assert bench.events.now == 50
    bench.disk.heal()
    bench.write(2)
    bench.run()
    assert bench.events.now == 51


def test_a_lost_write_is_reported_and_not_there():
    bench = Bench()
    bench.disk.lost_writes = 1.0
    bench.write(1, 2, 3, 4)
    bench.run()
    assert [record.is_good for record in bench.volume.records] == [True, True, False, True]
    assert bench.volume.is_synced(prepare(3).checksum)
    assert bench.disk.read_journal(0, prepare(3).checksum) is None
    assert [header.op for header in bench.volume.ring] == [1, 2, 3, 4]


def test_a_disk_that_lies_waits_until_the_ring_is_whole():
    """A lost record has no other name."""
    bench = Bench()
    bench.write(2)
    bench.run()
    bench.volume.rotten_slots.add(prepare(2).checksum)
    bench.disk.lost_writes = 1.0
    bench.write(3)
    bench.run()
    assert bench.volume.records[-1].is_good
    bench.volume.rotten_slots.clear()
    bench.write(6)
    bench.run()
    assert not bench.volume.records[-1].is_good


def test_a_stale_read_finds_nothing_and_spoils_nothing():
    bench = Bench()
    bench.write(3)
    bench.run()
    bench.disk.stale_reads = 1.0
    assert bench.disk.read_journal(0, prepare(3).checksum) is None
    bench.disk.heal()
    assert bench.disk.read_journal(0, prepare(3).checksum) is not None
    assert bench.volume.doubted == {3}
