"""What may be corrupted, so that a good copy or the rules for a lost disk make up for it."""

from random import Random

from msgspec.structs import replace

from borzoi.consensus.checkpoint import Artifact, ArtifactKind, Checkpoint, manifest_of
from borzoi.consensus.config import Config
from borzoi.consensus.frames import root, seal_prepare
from borzoi.consensus.messages import ZERO, Prepare
from borzoi.consensus.superblock import genesis
from borzoi.simulator.rot import (
    may_lose_slot,
    rot_candidates,
    rot_checkpoint,
    rot_survivable,
    rot_unnamed,
)
from borzoi.simulator.volume import Record, Volume

CONFIG = Config(cluster=bytes(range(16)), replica_id=0, replica_count=3)


def prepare(op: int) -> Prepare:
    first = root(CONFIG.cluster, 0)
    return seal_prepare(first._replace(op=op, client=ZERO, timestamp=op, view=1))


def write(volume: Volume, *headers: Prepare) -> None:
    volume.unsynced = [(Record(header, b"body", None), header.op) for header in headers]
    volume.synced_journal(len(headers))


def written(*ops_written: int) -> Volume:
    """A volume with these ops in its journal, synced."""
    volume = Volume()
    write(volume, *map(prepare, ops_written))
    return volume


def chain(*ops_written: int) -> list[Prepare]:
    """Prepares of one log, each naming the one before it."""
    parent, made = ZERO, []
    for op in ops_written:
        made.append(seal_prepare(prepare(op)._replace(parent=parent)))
        parent = made[-1].checksum
    return made


def test_rot_stays_within_the_atlas():
    volume = written(*range(1, 10))
    random = Random(1)
    for _ in range(200):
        rot_survivable([volume], random, 0, 3, deep=False)
    bad = [record.header.op for record in volume.records if not record.is_good]
    assert bad == [3, 6, 9]


def test_one_copy_of_the_superblock_may_rot():
    volume = Volume()
    volume.format(genesis(CONFIG))
    random = Random(2)
    kinds = {rot_survivable([volume], random, 0, 3, deep=False) for _ in range(60)}
    assert "superblock copy" in kinds
    assert volume.newest() == genesis(CONFIG)


def test_the_newest_record_rots_only_where_the_ring_names_it():
    volume = written(1, 2, 3)
    assert rot_candidates(volume, 0, 3) == [2]
    volume.ring.clear()
    assert rot_candidates(volume, 0, 3) == []


def test_what_a_power_cut_left_behind_rots_only_after_a_start():
    volume = written(3)
    # Op 6 is new and stays whole; op 3 is written again and torn behind it, and the ring names it.
    again = Record(prepare(3), b"body" * 100, None)
    for seed in range(100):
        volume.unsynced = [(Record(prepare(6), b"body", None), 6), (again, 7)]
        volume.power_cut(Random(seed))
        if [record.header.op for record in volume.records] == [3, 6, 3]:
            break
        del volume.records[1:]
        volume.spared = 0
    assert rot_candidates(volume, 0, 3) == [0]
    volume.ring.append(prepare(6))
    volume.reindex(3)
    assert rot_candidates(volume, 0, 3) == [0, 1]


def test_a_header_and_its_copy_rot_together_only_where_the_log_goes_on_behind():
    volume = Volume()
    headers = chain(1, 2, 3)
    write(volume, *headers)
    assert not any(may_lose_slot(volume, index) for index in range(3)), "no superblock"
    volume.format(replace(genesis(CONFIG), view=1, log_view=1))
    assert [may_lose_slot(volume, index) for index in range(3)] == [True, True, False]
    volume.format(replace(genesis(CONFIG), generation=2))
    assert not any(may_lose_slot(volume, index) for index in range(3)), "the view is not durable"
    volume.format(replace(genesis(CONFIG), generation=3, view=1, log_view=1))
    write(volume, headers[1])
    assert not may_lose_slot(volume, 3), "written again, it is the last one of the file"
    volume.records[0].trailer_bad = True
    assert not may_lose_slot(volume, 1), "a record without a name needs the ring"


def deeply_rotten(seed: int) -> tuple[Volume, set[str | None]]:
    volume = Volume()
    write(volume, *chain(*range(1, 12)))
    volume.format(replace(genesis(CONFIG), view=1, log_view=1))
    random = Random(seed)
    return volume, {rot_survivable([volume], random, 0, 3, deep=True) for _ in range(30)}


def test_deep_rot_takes_the_copy_of_a_header_too():
    volumes = [
        volume for volume, kinds in map(deeply_rotten, range(20))
        if "journal header and its copy" in kinds
    ]  # fmt: skip
    assert volumes
    for volume in volumes:
        rotten = {record.header.checksum for record in volume.records if record.header_bad}
        assert volume.rotten_slots
        assert volume.rotten_slots <= rotten


def test_deep_rot_of_unnamed_records_hits_neighbours_and_other_slots():
    touched = set()
    for seed in range(40):
        volume = written(*range(1, 9))
        assert rot_unnamed([volume], Random(seed), deep=True)
        records = volume.records
        unnamed = [n for n, record in enumerate(records) if record.trailer_bad]
        named = [n for n, record in enumerate(records) if record.header_bad and n not in unnamed]
        assert named in ([], [unnamed[0] + 1])
        own = records[unnamed[0]].header.checksum in volume.rotten_slots
        touched |= {"first"} if unnamed == [0] else set()
        touched |= {"neighbour"} if named else set()
        touched |= {"other slot"} if volume.rotten_slots and not own else set()
    assert touched == {"first", "neighbour", "other slot"}


def test_a_rotten_checkpoint_reads_with_one_wrong_bit():
    volume = Volume()
    artifact = Artifact(ArtifactKind.SEGMENT_LOG.value, 5, b"content")
    checkpoint = Checkpoint(manifest_of(prepare(5), (artifact,)), (artifact,))
    volume.format(replace(genesis(CONFIG), checkpoint_op=5))
    volume.checkpoints[5] = checkpoint
    assert volume.read_checkpoint(5, 0) == b"content"
    assert volume.read_checkpoint(4, 0) is None
    assert rot_checkpoint(volume, Random(1)) == "segment"
    assert volume.read_checkpoint(5, 0) not in (None, b"content")
    assert volume.is_damaged()
    volume.drop_checkpoints(6)
    assert not volume.is_damaged()
