from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk

from borzoi.metadata.effects import (
    CreatedPartitions,
    DeletedTopic,
    Effect,
    PurgedStream,
    PurgedTopic,
)
from borzoi.model.errors import InvalidConfiguration, StateCorrupted
from borzoi.model.namespace import Namespace
from borzoi.shard.presence import (
    PRESENCE_NAME,
    Presence,
    PresenceKeeper,
    lost,
    read_presence,
    refuse_lost,
    touched,
    write_presence,
)

ROOT = Path("/d")
ONE, TWO, THREE = Namespace(0, 0, 0), Namespace(0, 0, 1), Namespace(1, 0, 0)


def path_of(namespace: Namespace) -> Path:
    return ROOT / "streams" / "/".join(map(str, namespace))


@pytest.fixture
def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_directory(ROOT)
    return made


def test_what_was_written_is_read_again(disk: SimulatedDisk) -> None:
    assert read_presence(disk, ROOT) is None
    presence = Presence(17, (ONE, TWO))
    write_presence(disk, ROOT, presence)
    assert read_presence(disk, ROOT) == presence


def test_a_file_that_is_no_list_is_corrupted_state(disk: SimulatedDisk) -> None:
    disk.open(ROOT / PRESENCE_NAME, create=True).write([b'{"index": "x"}'], 0)
    with pytest.raises(StateCorrupted, match=PRESENCE_NAME):
        read_presence(disk, ROOT)


def test_what_was_listed_and_is_expected_and_has_no_directory_is_lost() -> None:
    presence = Presence(1, (ONE, TWO))
    assert lost(presence, {ONE, TWO, THREE}, set(), {TWO}) == [ONE]
    assert lost(presence, {TWO}, set(), set()) == [TWO], "a deleted one is not expected"
    assert lost(presence, {ONE, TWO}, {ONE}, {TWO}) == [], "a later entry was to make it"


def test_without_a_list_only_the_absence_of_all_is_a_loss() -> None:
    assert lost(None, {ONE, TWO}, set(), {ONE}) == []
    assert lost(None, {ONE, TWO}, {TWO}, set()) == [ONE]
    assert lost(None, set(), set(), set()) == []


def test_what_is_lost_is_named_as_far_as_a_sentence_goes() -> None:
    refuse_lost([], [], ROOT)
    many = [Namespace(0, 0, number) for number in range(7)]
    with pytest.raises(InvalidConfiguration) as caught:
        refuse_lost(many, [path_of(one) for one in many], ROOT)
    assert "7 partitions" in str(caught.value)
    assert "/d/streams/0/0/4 and 2 more" in str(caught.value)
    assert "borzoi log repair --yes /d" in str(caught.value)


def test_creations_and_purges_touch_partitions_and_deletions_do_not() -> None:
    effects: list[Effect] = [
        CreatedPartitions(0, 0, (0, 1)),
        PurgedTopic(1, 2, (3,)),
        PurgedStream(4, ((5, (6,)), (7, (8, 9)))),
        DeletedTopic(9, 9, (9,)),
    ]
    assert list(touched(effects)) == [
        ONE,
        TWO,
        Namespace(1, 2, 3),
        Namespace(4, 5, 6),
        Namespace(4, 7, 8),
        Namespace(4, 7, 9),
    ]


class WatchedDisk(SimulatedDisk):
    """Notes which directories were synced, and how many by the time of each rename."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[Path] = []
        self.renamed: list[int] = []

    def fsync_directory(self, directory: Path) -> None:
        self.synced.append(directory)
        super().fsync_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self.renamed.append(len(self.synced))
        super().rename(source, target)


def test_the_names_of_partitions_are_on_the_disk_before_the_list_is() -> None:
    """Otherwise a power cut could take a directory and leave the list that has it."""
    disk = WatchedDisk()
    for one in (ONE, TWO, THREE):
        disk.make_directory(path_of(one))
        disk.open(path_of(one) / "a file", create=True)
    keeper = PresenceKeeper(disk, ROOT, None)
    keeper.note(1, [(ONE, path_of(ONE)), (THREE, path_of(THREE))])
    assert set(disk.synced) == {
        ROOT,
        ROOT / "streams",
        ROOT / "streams/0",
        ROOT / "streams/0/0",
        ROOT / "streams/1",
        ROOT / "streams/1/0",
    }
    assert disk.renamed == [len(disk.synced)]
    disk.synced.clear()
    keeper.note(1, [(THREE, path_of(THREE)), (ONE, path_of(ONE))])
    assert len(disk.renamed) == 1, "the same list is not written again"
    keeper.note(2, [(ONE, path_of(ONE)), (TWO, path_of(TWO)), (THREE, path_of(THREE))])
    assert ROOT / "streams/1" not in disk.synced, "known ones are synced already"
    assert read_presence(disk, ROOT) == Presence(2, (ONE, TWO, THREE))
