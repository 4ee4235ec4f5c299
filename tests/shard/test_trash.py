import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.errors import StorageFailure
from borzoi.shard.trash import Trash
from borzoi.storage.local import LocalMedium

PATIENCE_SECONDS = 60.0


def folder(path: Path, content: str = "old") -> Path:
    path.mkdir(parents=True)
    (path / "file").write_text(content)
    return path


@contextmanager
def opened(medium: FaultyMedium, directory: Path, *, durable: bool = False) -> Iterator[Trash]:
    trash = Trash(medium, directory, durable=durable)
    try:
        yield trash
    finally:
        trash.close()


def sound() -> FaultyMedium:
    return FaultyMedium(LocalMedium(), lambda _operation, _path: None)


def until_empty(directory: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while any(directory.iterdir()):
        assert time.monotonic() < end, "it was not removed"
        time.sleep(0.001)


def test_what_is_put_away_is_gone_at_once_and_removed_later(tmp_path: Path) -> None:
    topic = folder(tmp_path / "0")
    with opened(sound(), tmp_path / "trash") as trash:
        assert trash.put(topic)
        assert not topic.exists()
        folder(topic, "new")
        assert trash.put(tmp_path / "never was") is False
        until_empty(tmp_path / "trash")
        assert (topic / "file").read_text() == "new"


def test_what_an_earlier_run_left_is_removed_and_nothing_is_put_over_it(tmp_path: Path) -> None:
    directory = tmp_path / "trash"
    for name in ("3", "12", "by hand"):
        folder(directory / name)
    medium = sound()
    with opened(medium, directory) as trash:
        trash.put(folder(tmp_path / "0"))
        until_empty(directory)
    removed = {path.name for operation, path in medium.operations if operation == "remove_tree"}
    assert removed == {"3", "12", "by hand", "13"}


async def test_what_cannot_be_moved_is_removed_where_it_is(tmp_path: Path) -> None:
    def choose(operation: str, _path: Path) -> Fault | None:
        return Fault.IO_ERROR if operation == "rename" else None

    stays = folder(tmp_path / "0")
    with opened(FaultyMedium(LocalMedium(), choose), tmp_path / "trash") as trash:
        with pytest.raises(StorageFailure):
            trash.put(stays)
        assert stays.exists()
        await trash.take(stays)
        assert not stays.exists()


async def test_what_can_be_neither_moved_nor_removed_is_told(tmp_path: Path) -> None:
    def choose(operation: str, _path: Path) -> Fault | None:
        return Fault.IO_ERROR if operation in ("rename", "remove_tree") else None

    stays = folder(tmp_path / "0")
    with opened(FaultyMedium(LocalMedium(), choose), tmp_path / "trash") as trash:
        with pytest.raises(StorageFailure):
            await trash.take(stays)
    assert stays.exists()


async def test_names_are_synced_once_before_their_numbers_are_used_again(tmp_path: Path) -> None:
    medium = sound()
    with opened(medium, tmp_path / "trash", durable=True) as trash:
        for number in range(3):
            trash.put(folder(tmp_path / "topics" / str(number)))
        trash.put(folder(tmp_path / "other" / "0"))
        trash.put(tmp_path / "other")  # its own names cannot come back
        for _ in range(2):
            await trash.settled()
    synced = [path for operation, path in medium.operations if operation == "fsync_directory"]
    assert sorted(synced) == [tmp_path, tmp_path / "topics"]


async def test_without_durable_metadata_nothing_waits_for_the_disk(tmp_path: Path) -> None:
    medium = sound()
    with opened(medium, tmp_path / "trash") as trash:
        trash.put(folder(tmp_path / "topics" / "0"))
        await trash.settled()
        assert "fsync_directory" not in [operation for operation, _ in medium.operations]
        await trash.synced()
        assert ("fsync_directory", tmp_path / "topics") in medium.operations


async def test_a_sync_that_failed_is_tried_again(tmp_path: Path) -> None:
    broken = True

    def choose(operation: str, _path: Path) -> Fault | None:
        return Fault.IO_ERROR if broken and operation == "fsync_directory" else None

    medium = FaultyMedium(LocalMedium(), choose)
    with opened(medium, tmp_path / "trash", durable=True) as trash:
        trash.put(folder(tmp_path / "topics" / "0"))
        with pytest.raises(StorageFailure):
            await trash.settled()
        broken = False
        await trash.settled()
    assert [operation for operation, _ in medium.operations].count("fsync_directory") == 2


def test_closing_does_not_wait_for_what_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borzoi.shard.trash.CLOSE_SECONDS_MAX", 0.01)
    begun, go_on = threading.Event(), threading.Event()

    def slow(_operation: str, _path: Path) -> Fault | None:
        if _operation == "remove_tree":
            begun.set()
            go_on.wait(PATIENCE_SECONDS)
        return None

    with opened(FaultyMedium(LocalMedium(), slow), tmp_path / "trash") as trash:
        trash.put(folder(tmp_path / "0"))
        trash.put(folder(tmp_path / "1"))
        assert begun.wait(PATIENCE_SECONDS)
    go_on.set()
    # The one that was under way goes, the next one is for the next start.
    end = time.monotonic() + PATIENCE_SECONDS
    while len(list((tmp_path / "trash").iterdir())) > 1:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert (tmp_path / "trash" / "2").exists()


def test_what_cannot_be_removed_is_left_to_the_next_start(tmp_path: Path) -> None:
    failing = True

    def choose(operation: str, _path: Path) -> Fault | None:
        return Fault.IO_ERROR if failing and operation == "remove_tree" else None

    medium = FaultyMedium(LocalMedium(), choose)
    with opened(medium, tmp_path / "trash") as trash:
        trash.put(folder(tmp_path / "0"))
        end = time.monotonic() + PATIENCE_SECONDS
        while ("remove_tree", tmp_path / "trash" / "1") not in medium.operations:
            assert time.monotonic() < end
            time.sleep(0.001)
    failing = False
    with opened(medium, tmp_path / "trash"):
        until_empty(tmp_path / "trash")


def test_shards_share_the_trash_and_remove_their_own(tmp_path: Path) -> None:
    trash = tmp_path / "trash"
    for name in ("7", "1-3", "2-9", "odd"):
        folder(trash / name)
    removed = threading.Event()

    def slow(operation: str, path: Path) -> Fault | None:
        if operation == "remove_tree":
            removed.set()
        return None

    medium = FaultyMedium(LocalMedium(), slow)
    one = Trash(medium, trash, durable=False, shard=1, count=2)
    assert removed.wait(PATIENCE_SECONDS)
    end = time.monotonic() + PATIENCE_SECONDS
    while (trash / "1-3").exists():
        assert time.monotonic() < end
        time.sleep(0.001)
    one.put(folder(tmp_path / "topic"))
    assert ("rename", tmp_path / "topic") in medium.operations
    one.close()
    assert {path.name for path in trash.iterdir()} >= {"7", "2-9", "odd"}
    assert not any(path.name == "1-3" for path in trash.iterdir())
    # There is no shard 2 any more, so the first one removes what it left.
    first = Trash(LocalMedium(), trash, durable=False, shard=0, count=2)
    while {path.name for path in trash.iterdir()} & {"7", "2-9", "odd"}:
        assert time.monotonic() < end
        time.sleep(0.001)
    first.close()


def test_two_shards_never_choose_the_same_name(tmp_path: Path) -> None:
    gate = threading.Event()

    def held(operation: str, _path: Path) -> Fault | None:
        if operation == "remove_tree":
            gate.wait(PATIENCE_SECONDS)
        return None

    shards = [
        Trash(
            FaultyMedium(LocalMedium(), held),
            tmp_path / "trash",
            durable=False,
            shard=shard,
            count=3,
        )
        for shard in range(3)
    ]
    for number in range(9):
        assert shards[number % 3].put(folder(tmp_path / str(number)))
    assert len(list((tmp_path / "trash").iterdir())) == 9
    gate.set()
    until_empty(tmp_path / "trash")
    for shard in shards:
        shard.close()


@pytest.mark.parametrize("wrong", ["", "trash"])
def test_what_holds_the_trash_is_never_put_into_it(tmp_path: Path, wrong: str) -> None:
    with opened(sound(), tmp_path / "trash") as trash:
        with pytest.raises(AssertionError, match="removes the trash"):
            trash.put(tmp_path / wrong)
    assert (tmp_path / "trash").is_dir()
