from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium

from borzoi.storage import recovery_point
from borzoi.storage.recovery_point import PointKeeper, RecoveryPoint, decode, encode

DIRECTORY = Path("/d")
POINT = RecoveryPoint(100, 5000, False, "boot 0")


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_directory(DIRECTORY)
    return made


@pytest.fixture
def keeper(disk: SimulatedDisk) -> PointKeeper:
    return PointKeeper(disk, DIRECTORY)


u64s = st.integers(0, 2**64 - 1)


@given(st.builds(RecoveryPoint, u64s, u64s, st.booleans(), st.text(max_size=40), u64s))
def test_a_point_survives_the_round_trip(point: RecoveryPoint) -> None:
    assert decode(encode(point)) == point


@given(st.integers(0, len(encode(POINT)) - 1), st.integers(1, 255))
def test_a_damaged_point_is_no_point(at: int, flip: int) -> None:
    stored = bytearray(encode(POINT))
    assert decode(bytes(stored[:at])) is None
    stored[at] ^= flip
    assert decode(bytes(stored)) is None


def test_a_log_without_a_point_has_none(disk: SimulatedDisk) -> None:
    assert recovery_point.load(disk, DIRECTORY) is None


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_cut_the_old_or_the_new_point_is_there(
    disk: SimulatedDisk, keeper: PointKeeper, seed: int
) -> None:
    keeper.settle(POINT)
    later = POINT._replace(position=9000)
    keeper.advance(later, keeper.version)
    disk.power_cut(Random(seed))
    assert recovery_point.load(disk, DIRECTORY) in (POINT, later)


@pytest.mark.parametrize("seed", range(20))
def test_a_settled_point_stays(disk: SimulatedDisk, keeper: PointKeeper, seed: int) -> None:
    keeper.settle(POINT)
    assert keeper.is_durable
    disk.power_cut(Random(seed))
    assert recovery_point.load(disk, DIRECTORY) == POINT


def test_a_noted_point_may_be_lost_with_the_power(disk: SimulatedDisk, keeper: PointKeeper) -> None:
    keeper.note(POINT)
    assert recovery_point.load(disk, DIRECTORY) == POINT
    assert not keeper.is_durable


@pytest.mark.parametrize("seed", range(20))
def test_the_first_sync_after_a_note_makes_the_point_durable(
    disk: SimulatedDisk, keeper: PointKeeper, seed: int
) -> None:
    keeper.note(POINT)
    disk.fsync_directory(DIRECTORY)  # the name is on the disk, and nothing of its content
    later = POINT._replace(position=9000)
    keeper.advance(later, keeper.version)
    assert keeper.is_durable
    disk.power_cut(Random(seed))
    assert recovery_point.load(disk, DIRECTORY) == later


def test_a_sync_from_before_a_cut_moves_nothing(disk: SimulatedDisk, keeper: PointKeeper) -> None:
    version = keeper.version
    with keeper.cutting():
        pass
    keeper.advance(POINT, version)
    assert recovery_point.load(disk, DIRECTORY) is None
    keeper.advance(POINT, keeper.version)
    assert recovery_point.load(disk, DIRECTORY) == POINT


def test_a_point_that_cannot_be_moved_is_no_failure(disk: SimulatedDisk) -> None:
    keeper = PointKeeper(
        FaultyMedium(disk, lambda name, _: Fault.NO_SPACE if name == "write" else None), DIRECTORY
    )
    keeper.advance(POINT, keeper.version)
    assert not keeper.is_durable
