from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.errors import CannotSync
from borzoi.storage import recovery_point
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.durability import Durability
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.segment import Segment
from borzoi.storage.segments import Segments
from borzoi.storage.syncing import Once

DIRECTORY = Path("/a/b")
BESIDE = Path("/a/c")


def setting(*, proven: bool) -> tuple[FaultyMedium, Durability, Segment]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    medium = FaultyMedium(disk, lambda *_: None)
    segments = Segments(DIRECTORY, medium, Descriptors(medium))
    segments.begin(0)
    return medium, Durability(medium, DIRECTORY, proven_by_index=proven), segments.tail


def synced(medium: FaultyMedium) -> list[str]:
    """What was synced since the last look, in order."""
    found = [str(path) for name, path in medium.operations if name.startswith("f")]
    medium.operations.clear()
    return [path for path in found if not path.endswith(".tmp")]


def test_the_first_sync_takes_along_the_names_on_the_way() -> None:
    medium, durability, tail = setting(proven=True)
    medium.operations.clear()
    job = durability.job(tail, with_tail=True)
    job.run()
    durability.done(job)
    assert synced(medium) == [str(tail.log_path), "/a/b", "/a", "/"]
    job = durability.job(tail, with_tail=True)
    job.run()
    assert synced(medium) == [str(tail.log_path)]


def test_what_is_added_while_a_sync_runs_waits_for_the_next() -> None:
    medium, durability, tail = setting(proven=True)
    first = durability.job(tail, with_tail=False)
    sealed = medium.open(DIRECTORY / "sealed", create=True)
    durability.sealed(sealed)
    durability.name_added()
    first.run()
    durability.done(first)
    medium.operations.clear()
    second = durability.job(tail, with_tail=False)
    second.run()
    durability.done(second)
    assert synced(medium) == ["/a/b/sealed", "/a/b"]
    durability.job(tail, with_tail=False).run()
    assert synced(medium) == []


def test_names_that_logs_share_are_synced_once_for_all_of_them() -> None:
    medium, first, tail = setting(proven=True)
    medium.make_directory(BESIDE)
    second = Durability(medium, BESIDE, proven_by_index=True)
    syncs: dict[Path, Once] = {}
    for durability in (first, second):
        durability.share(syncs)
    medium.operations.clear()
    for durability in (first, second):
        job = durability.job(tail, with_tail=False)
        job.run()
        durability.done(job)
    assert synced(medium) == ["/a/b", "/a", "/", "/a/c"]
    first.name_added()
    first.job(tail, with_tail=False).run()
    assert synced(medium) == ["/a/b"], "no other path shares its directory"


def test_a_shared_sync_that_fails_has_failed_for_everyone() -> None:
    """A second try would succeed and prove nothing."""
    _, _, tail = setting(proven=True)
    failing = FaultyMedium(
        SimulatedDisk(), lambda _, path: Fault.IO_ERROR if path == Path("/a") else None
    )
    failing.make_directory(DIRECTORY)
    failing.make_directory(BESIDE)
    both = [Durability(failing, each, proven_by_index=True) for each in (DIRECTORY, BESIDE)]
    syncs: dict[Path, Once] = {}
    for durability in both:
        durability.share(syncs)
    for durability in both:
        with pytest.raises(CannotSync, match="/a:"):
            durability.job(tail, with_tail=False).run()
    assert failing.operations.count(("fsync_directory", Path("/a"))) == 1


def test_what_is_loaded_after_a_shared_sync_is_not_covered_by_it() -> None:
    medium, durability, tail = setting(proven=True)
    syncs: dict[Path, Once] = {}
    durability.share(syncs)
    durability.job(tail, with_tail=False).run()
    durability.reset()
    medium.operations.clear()
    durability.job(tail, with_tail=False).run()
    assert synced(medium) == ["/a/b", "/a", "/"]


def test_files_come_before_names_and_the_point_comes_last() -> None:
    medium, durability, tail = setting(proven=False)
    medium.operations.clear()
    durability.job(tail, with_tail=True).run()
    names = [name for name, _ in medium.operations]
    assert names[:2] == ["open", "fdatasync"]
    assert names[-2:] == ["rename", "fsync_directory"], "the first one has to be durable"
    durability.job(tail, with_tail=True).run()
    assert medium.operations[-1][0] == "rename", "later ones may be lost for an older one"
    assert recovery_point.load(medium, DIRECTORY) == RecoveryPoint(0, 0, False, "boot 0")


@pytest.mark.parametrize("proven", [False, True])
def test_a_changed_level_is_written_down_before_the_first_append(proven: bool) -> None:
    medium, durability, tail = setting(proven=proven)
    durability.begin(RecoveryPoint(0, 7, not proven, "boot 0"), tail)
    assert recovery_point.load(medium, DIRECTORY) == RecoveryPoint(0, 0, proven, "boot 0")
    assert durability.keeper.is_durable


def test_a_new_boot_is_written_down_and_the_same_one_is_not() -> None:
    medium, durability, tail = setting(proven=False)
    old = RecoveryPoint(0, 7, False, "an earlier boot")
    durability.begin(old, tail)
    assert recovery_point.load(medium, DIRECTORY) == old._replace(boot_id="boot 0")
    medium.operations.clear()
    durability.begin(old._replace(boot_id="boot 0"), tail)
    assert medium.operations == []


def test_the_point_of_a_new_log_is_synced_before_its_second_segment() -> None:
    _, durability, tail = setting(proven=False)
    durability.begin(None, tail)
    assert not durability.keeper.is_durable
    durability.before_second_segment()
    assert durability.keeper.is_durable
