"""A disk becomes the same start for a replica as values and as bytes."""

from random import Random

import pytest

from borzoi.consensus import journal as journals
from borzoi.simulator import restoring
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.rot import rot_checkpoint, spoil_header
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.volume import Record, Volume


def used_disk() -> tuple[Simulation, Volume]:
    """A disk that has seen some traffic, with its bytes."""
    simulation = Simulation(
        Draw(seed=9, replicas=3, clients=3, think_ticks=2, full=1, disturb_primary=0)
    )
    simulation.start()
    simulation.advance(300)
    node = simulation.nodes[1]
    node.crash()
    return simulation, node.disk.volumes[0]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_and_values_tell_the_same_story(seed):
    simulation, volume = used_disk()
    random = Random(seed)
    for _ in range(3):
        record = volume.records[random.randrange(len(volume.records) - 1)]
        spoil_header(record, random.random())
    volume.lose(volume.records[random.randrange(1, 9)])
    volume.misdirect(volume.records[-1], random.randrange(12, 15))
    config = simulation.nodes[1].configs[0]
    expected = restoring.scan_of(volume)
    assert expected.gaps
    assert expected.redundant
    scan = restoring.read_journal(volume, config, expected)
    assert scan.gaps == expected.gaps


def test_a_story_that_differs_is_an_objection():
    simulation, volume = used_disk()
    expected = restoring.scan_of(volume)
    spoil_header(volume.records[2], 0.5)
    with pytest.raises(Violation):
        restoring.read_journal(volume, simulation.nodes[1].configs[0], expected)


def test_one_bad_copy_of_the_superblock_does_not_matter():
    _, volume = used_disk()
    newest = volume.newest()
    assert newest is not None
    pair = volume.generations[newest.generation % 2]
    assert pair is not None
    pair.copies = 2
    assert restoring.read_superblock(volume) == newest


def test_a_disk_without_superblock_was_replaced_unless_the_cluster_is_new():
    simulation, _ = used_disk()
    config = simulation.nodes[1].configs[0]
    restored, wiped = restoring.restored(Volume(), config, bytes(16), full=False)
    assert wiped
    assert restored.wiped
    restored, wiped = restoring.restored(Volume(), config, bytes(16), full=False, new=True)
    assert not wiped
    assert not restored.wiped


def test_a_rotten_tail_stays_and_the_ring_remembers_it():
    _, volume = used_disk()
    newest = volume.records[-1]
    volume.ring.append(newest.header)
    spoil_header(newest, 0.5)
    scan = restoring.scan_of(volume)
    assert newest.header in scan.redundant
    before = len(volume.records)
    restoring.keep_scanned(volume, scan)
    assert len(volume.records) == before
    assert newest.header in volume.ring
    # What a checkpoint covers may have been recycled: no replica has to keep it.
    assert newest.header not in restoring.scan_of(volume, newest.header.op).redundant


@pytest.mark.parametrize("is_named", [True, False])
def test_a_record_torn_when_it_was_written_again_is_faulty_only_if_the_ring_names_it(is_named):
    simulation, volume = used_disk()
    config = simulation.nodes[1].configs[0]
    first = next(record for record in reversed(volume.records) if len(record.body) > 8)
    volume.ring = [record.header for record in volume.records]
    if not is_named:
        volume.rotten_slots.add(first.header.checksum)
    before = len(volume.records)
    outcomes = set()
    for seed in range(40):
        del volume.records[before:]
        volume.found[first.header.checksum] = first
        again = Record(first.header, first.body, first.image)
        volume.unsynced = [(again, 0)]
        if volume.power_cut(Random(seed)):
            continue
        expected = restoring.scan_of(volume)
        scan = restoring.read_journal(volume, config, expected)
        outcomes.add(len(scan.records) - before)
        assert volume.found[first.header.checksum] is first
        if len(scan.records) > before:
            assert scan.records[-1][:2] == (first.header, False)
    # Torn inside its header it is cut in any case.
    assert outcomes == ({0, 1} if is_named else {0})


def test_a_checkpoint_with_a_wrong_bit_is_not_whole():
    simulation = Simulation(
        Draw(seed=9, replicas=3, clients=3, think_ticks=2, checkpoint_ops=16, disturb_primary=0)
    )
    simulation.start()
    simulation.advance(600)
    node = simulation.nodes[1]
    volume = node.disk.volumes[1]
    assert restoring.checkpoint_is_whole(volume, verify=True)
    assert rot_checkpoint(volume, Random(2)) is not None
    assert not restoring.checkpoint_is_whole(volume, verify=False)
    node.crash()
    node.start()
    assert node.disk.counts["checkpoint refused at a start"] == 1
    assert node.is_rejoining
    simulation.advance(1500)
    assert not node.is_rejoining


def test_a_disk_without_a_superblock_is_empty_or_was_torn_the_first_time():
    _, volume = used_disk()
    with pytest.raises(Violation):
        restoring.read_nothing(volume)
    for generation in volume.generations:
        if generation is not None:
            generation.copies = 0
    restoring.read_nothing(volume)
    volume.reset()
    restoring.read_nothing(volume)


def test_a_ring_that_would_be_written_differently_is_an_objection(monkeypatch):
    simulation, volume = used_disk()
    config = simulation.nodes[1].configs[0]
    restoring.restored(volume, config, bytes(16), full=True)
    monkeypatch.setattr(journals, "ring_after", lambda scan: b"")
    with pytest.raises(Violation, match="ring"):
        restoring.restored(volume, config, bytes(16), full=True)
