"""What lies on the disk of one group: what a power cut leaves of it, and what is recycled."""

from random import Random

from msgspec.structs import replace

from borzoi.consensus.config import Config
from borzoi.consensus.frames import root, seal_prepare
from borzoi.consensus.messages import ZERO
from borzoi.consensus.superblock import genesis
from borzoi.simulator.volume import Record, Volume, spoil

CONFIG = Config(cluster=bytes(range(16)), replica_id=0, replica_count=3)


def prepare(op: int):
    first = root(CONFIG.cluster, 0)
    return seal_prepare(first._replace(op=op, client=ZERO, timestamp=op, view=1))


def written(*ops_written: int) -> Volume:
    """A volume with these ops in its journal, synced."""
    volume = Volume()
    volume.unsynced = [(Record(prepare(op), b"body", None), op) for op in ops_written]
    volume.synced_journal(len(ops_written))
    return volume


def ops(volume: Volume) -> list[int]:
    return [record.header.op for record in volume.records]


def test_a_torn_superblock_never_takes_the_generation_before_it():
    outcomes = set()
    for seed in range(40):
        volume = Volume()
        first = genesis(CONFIG)
        volume.format(first)
        volume.pending_superblock = replace(first, generation=2, view=1)
        volume.power_cut(Random(seed))
        newest = volume.newest()
        assert newest is not None
        outcomes.add(newest.view)
    assert outcomes == {0, 1}


def test_the_journal_is_recycled_from_its_oldest_end():
    volume = written(1, 2, 9, 3, 4)
    volume.truncate(5)
    assert ops(volume) == [9, 3, 4]
    volume.truncate(100)
    assert ops(volume) == [4]


def test_a_rotten_record_is_not_good():
    record = Record(prepare(1), b"", None)
    assert record.is_good
    record.header_bad = True
    assert not record.is_good


def test_a_spoiled_image_differs_in_one_bit():
    record = Record(prepare(1), b"", bytes(8))
    spoil(record, 5)
    assert record.image == bytes([0, 0, 0, 0, 0, 0x40, 0, 0])


def test_a_misdirected_write_destroys_an_older_record():
    volume = written(3, 4, 6)
    volume.misdirect(volume.records[2], 0)
    assert [(record.header.op, record.is_good) for record in volume.records] == [
        (6, True),
        (4, True),
        (6, False),
    ]
    assert volume.is_synced(prepare(3).checksum)
    assert not volume.found[prepare(3).checksum].is_good
    volume.reindex(3)
    assert not volume.is_synced(prepare(3).checksum)
    assert volume.found[prepare(6).checksum].is_good
