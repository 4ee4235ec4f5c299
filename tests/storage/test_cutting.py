"""A cut happens once it may have been declared, however often it has to be tried."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.errors import StorageFailure
from borzoi.storage import layout, truncation
from borzoi.storage.cutting import Cutting
from borzoi.storage.recovery_point import PointKeeper

DIRECTORY = Path("/d")
LOG = DIRECTORY / layout.log_name(0)


class Scene:
    """A directory with one log file, and what a log would have been told."""

    def __init__(self) -> None:
        self.fails: Callable[[str, Path], bool] = lambda *_: False
        self.medium = FaultyMedium(SimulatedDisk(), self.fault)
        self.medium.make_directory(DIRECTORY)
        self.medium.open(LOG, create=True).write([b"messages"], 0)
        self.told: list[str] = []
        self.load_fails = False
        self.cutting = Cutting(
            self.medium,
            DIRECTORY,
            PointKeeper(self.medium, DIRECTORY),
            forget=lambda: self.told.append("forget"),
            load=self.load,
        )

    def fault(self, name: str, path: Path) -> Fault | None:
        return Fault.IO_ERROR if self.fails(name, path) else None

    def load(self) -> None:
        self.told.append("load")
        if self.load_fails:
            raise StorageFailure("cannot be loaded")

    def size(self) -> int:
        return self.medium.open(LOG).size()


def test_a_cut_is_carried_out_then_told_then_loaded() -> None:
    scene = Scene()
    scene.cutting.cut(truncation.Intent(0, 3, 1))
    assert scene.size() == 3
    assert scene.told == ["forget", "load"]
    assert not scene.cutting.due
    assert not scene.cutting.is_unfinished


def test_a_cut_that_was_not_declared_does_not_happen() -> None:
    scene = Scene()
    scene.fails = lambda name, path: path.name.startswith(layout.INTENT)
    with pytest.raises(StorageFailure):
        scene.cutting.cut(truncation.purge_to(1))
    scene.fails = lambda *_: False
    assert not scene.cutting.due
    assert not scene.cutting.is_unfinished
    assert (scene.size(), scene.told) == (8, [])


def test_a_cut_that_may_have_been_declared_is_due() -> None:
    scene = Scene()
    scene.fails = lambda name, _: name == "fsync_directory"
    with pytest.raises(StorageFailure):
        scene.cutting.cut(truncation.purge_to(1))
    assert scene.cutting.due
    assert scene.cutting.is_unfinished
    scene.fails = lambda *_: False
    scene.cutting.go_on()
    assert (scene.size(), scene.told) == (0, ["forget", "load"])
    assert not scene.cutting.due


def test_a_cut_that_fails_halfway_stays_due_until_it_succeeds() -> None:
    scene = Scene()
    scene.fails = lambda name, path: name == "truncate" and path == LOG
    with pytest.raises(StorageFailure):
        scene.cutting.cut(truncation.Intent(0, 3, 1))
    with pytest.raises(StorageFailure):
        scene.cutting.go_on()
    assert scene.cutting.is_unfinished
    assert scene.told == []
    scene.fails = lambda *_: False
    scene.cutting.go_on()
    assert (scene.size(), scene.told) == (3, ["forget", "load"])


def test_what_cannot_be_loaded_is_not_forgotten_twice() -> None:
    scene = Scene()
    scene.load_fails = True
    with pytest.raises(StorageFailure):
        scene.cutting.cut(truncation.purge_to(1))
    assert scene.cutting.due
    assert not scene.cutting.is_unfinished
    scene.load_fails = False
    scene.cutting.go_on()
    assert scene.told == ["forget", "load", "load"]
    assert not scene.cutting.due
