"""What reaches the disk, what a power cut leaves, and what may rot."""

import dataclasses
from dataclasses import replace
from random import Random

from borzoi.consensus.checkpoint import Artifact, ArtifactKind, Checkpoint, Manifest, manifest_of
from borzoi.consensus.config import Config
from borzoi.consensus.frames import root, seal_prepare
from borzoi.consensus.messages import ZERO
from borzoi.consensus.superblock import genesis
from borzoi.simulator.disk import Disk, Record, Volume
from borzoi.simulator.events import EventQueue

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


def test_a_torn_superblock_never_takes_the_generation_before_it():
    outcomes = set()
    for seed in range(40):
        bench = Bench(seed)
        first = genesis(CONFIG)
        bench.volume.format(first)
        second = dataclasses.replace(first, generation=2, view=1)
        bench.disk.write_superblock(0, second, 7)
        bench.disk.crash()
        newest = bench.volume.newest()
        assert newest is not None
        outcomes.add(newest.view)
    assert outcomes == {0, 1}


def test_a_failed_sync_stops_the_process_and_reports_nothing():
    bench = Bench()
    bench.write(1)
    bench.disk.fail_next_sync("disk full")
    bench.run()
    assert bench.failures == ["disk full"]
    assert bench.done == []


def test_the_journal_is_recycled_from_its_oldest_end():
    bench = Bench()
    bench.write(1, 2, 9, 3, 4)
    bench.run()
    bench.volume.truncate(5)
    assert bench.ops() == [9, 3, 4]
    bench.volume.truncate(100)
    assert bench.ops() == [4]


def test_rot_stays_within_the_atlas():
    bench = Bench()
    bench.write(*range(1, 10))
    bench.run()
    random = Random(1)
    for _ in range(200):
        bench.disk.rot(random)
    bad = [record.header.op for record in bench.volume.records if not record.is_good]
    assert bad == [3, 6, 9]
    assert bench.disk.read_journal(0, prepare(3).checksum) is None


def test_one_copy_of_the_superblock_may_rot():
    bench = Bench()
    bench.volume.format(genesis(CONFIG))
    random = Random(2)
    assert "superblock copy" in {bench.disk.rot(random) for _ in range(60)}
    assert bench.volume.newest() == genesis(CONFIG)


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


def test_a_rotten_record_is_not_good():
    record = Record(prepare(1), b"", None)
    assert record.is_good
    record.header_bad = True
    assert not record.is_good


def test_the_newest_record_rots_only_where_the_ring_names_it():
    bench = Bench()
    bench.write(1, 2, 3)
    bench.run()
    assert bench.volume.rot_candidates(0, 3) == [2]
    bench.volume.ring.clear()
    assert bench.volume.rot_candidates(0, 3) == []


def test_what_a_power_cut_left_behind_rots_only_after_a_start():
    bench = Bench()
    bench.write(3)
    bench.run()
    # Op 6 is new and stays whole; op 3 is written again and torn behind it, and the ring names it.
    again = Record(prepare(3), b"body" * 100, None)
    for seed in range(100):
        volume = bench.volume
        volume.unsynced = [(Record(prepare(6), b"body", None), 6), (again, 7)]
        volume.power_cut(Random(seed))
        if bench.ops() == [3, 6, 3]:
            break
        del volume.records[1:]
        volume.spared = 0
    assert volume.rot_candidates(0, 3) == [0]
    volume.ring.append(prepare(6))
    volume.reindex(3)
    assert volume.rot_candidates(0, 3) == [0, 1]


def chain(*ops_written: int):
    """Prepares of one log, each naming the one before it."""
    parent, made = ZERO, []
    for op in ops_written:
        made.append(seal_prepare(prepare(op)._replace(parent=parent)))
        parent = made[-1].checksum
    return made


def test_a_header_and_its_copy_rot_together_only_where_the_log_goes_on_behind():
    bench = Bench()
    volume = bench.volume
    headers = chain(1, 2, 3)
    for token, header in enumerate(headers):
        bench.disk.write_journal(0, header, b"body", token, None)
    bench.run()
    assert not any(map(volume.may_lose_slot, range(3))), "no superblock"
    volume.format(replace(genesis(CONFIG), view=1, log_view=1))
    assert [volume.may_lose_slot(index) for index in range(3)] == [True, True, False]
    volume.format(replace(genesis(CONFIG), generation=2))
    assert not any(map(volume.may_lose_slot, range(3))), "the view is not durable"
    volume.format(replace(genesis(CONFIG), generation=3, view=1, log_view=1))
    bench.disk.write_journal(0, headers[1], b"body", 9, None)
    bench.run()
    assert not volume.may_lose_slot(3), "written again, it is the last one of the file"
    volume.records[0].trailer_bad = True
    assert not volume.may_lose_slot(1), "a record without a name needs the ring"


def deeply_rotten(seed: int) -> tuple[Bench, set[str | None]]:
    bench = Bench()
    for token, header in enumerate(chain(*range(1, 12))):
        bench.disk.write_journal(0, header, b"body", token, None)
    bench.run()
    bench.volume.format(replace(genesis(CONFIG), view=1, log_view=1))
    bench.disk.rot_deep = True
    random = Random(seed)
    return bench, {bench.disk.rot(random) for _ in range(30)}


def test_deep_rot_takes_the_copy_of_a_header_and_a_lying_disk_waits():
    benches = [
        bench for bench, kinds in map(deeply_rotten, range(20))
        if "journal header and its copy" in kinds
    ]  # fmt: skip
    assert benches
    for bench in benches:
        rotten = {record.header.checksum for record in bench.volume.records if record.header_bad}
        assert bench.volume.rotten_slots
        assert bench.volume.rotten_slots <= rotten
        bench.disk.lost_writes = 1.0
        bench.write(12)
        bench.run()
        assert bench.volume.records[-1].is_good


def test_deep_rot_of_unnamed_records_hits_neighbours_and_other_slots():
    touched = set()
    for seed in range(40):
        bench = Bench()
        bench.write(*range(1, 9))
        bench.run()
        bench.disk.rot_deep = True
        assert bench.disk.rot_unnamed(Random(seed))
        records = bench.volume.records
        unnamed = [n for n, record in enumerate(records) if record.trailer_bad]
        named = [n for n, record in enumerate(records) if record.header_bad and n not in unnamed]
        assert named in ([], [unnamed[0] + 1])
        own = records[unnamed[0]].header.checksum in bench.volume.rotten_slots
        touched |= {"first"} if unnamed == [0] else set()
        touched |= {"neighbour"} if named else set()
        touched |= {"other slot"} if bench.volume.rotten_slots and not own else set()
    assert touched == {"first", "neighbour", "other slot"}


def test_a_lost_write_is_reported_and_not_there():
    bench = Bench()
    bench.disk.lost_writes = 1.0
    bench.write(1, 2, 3, 4)
    bench.run()
    assert [record.is_good for record in bench.volume.records] == [True, True, False, True]
    assert bench.volume.is_synced(prepare(3).checksum)
    assert bench.disk.read_journal(0, prepare(3).checksum) is None
    assert [header.op for header in bench.volume.ring] == [1, 2, 3, 4]


def test_a_misdirected_write_destroys_an_older_record():
    bench = Bench()
    bench.write(3, 4, 6)
    bench.run()
    volume = bench.volume
    volume.misdirect(volume.records[2], 0)
    assert [(record.header.op, record.is_good) for record in volume.records] == [
        (6, True),
        (4, True),
        (6, False),
    ]
    assert volume.is_synced(prepare(3).checksum)
    assert bench.disk.read_journal(0, prepare(3).checksum) is None
    volume.reindex(3)
    assert not volume.is_synced(prepare(3).checksum)
    assert bench.disk.read_journal(0, prepare(6).checksum) is not None


def test_a_stale_read_finds_nothing_and_spoils_nothing():
    bench = Bench()
    bench.write(3)
    bench.run()
    bench.disk.stale_reads = 1.0
    assert bench.disk.read_journal(0, prepare(3).checksum) is None
    bench.disk.heal()
    assert bench.disk.read_journal(0, prepare(3).checksum) is not None
    assert bench.volume.doubted == {3}


def test_a_rotten_checkpoint_reads_with_one_wrong_bit():
    bench = Bench()
    artifact = Artifact(ArtifactKind.SEGMENT_LOG.value, 5, b"content")
    checkpoint = Checkpoint(manifest_of(prepare(5), (artifact,)), (artifact,))
    bench.volume.format(replace(genesis(CONFIG), checkpoint_op=5))
    bench.volume.checkpoints[5] = checkpoint
    assert bench.volume.read_checkpoint(5, 0) == b"content"
    assert bench.volume.read_checkpoint(4, 0) is None
    assert bench.volume.rot_checkpoint(Random(1)) == "segment"
    assert bench.volume.read_checkpoint(5, 0) not in (None, b"content")
    assert bench.volume.is_damaged()
    bench.volume.drop_checkpoints(6)
    assert not bench.volume.is_damaged()
