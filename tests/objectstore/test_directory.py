"""What the contract in `test_interface.py` does not say of files alone."""

import asyncio
import os
from pathlib import Path

import pytest

from borzoi.objectstore.directory import DRAFT_MARK, DirectoryStore
from borzoi.objectstore.errors import Ambiguous, ObjectNotFound, PermissionDenied
from borzoi.objectstore.interface import PART_BYTES_MIN


async def test_objects_are_files_under_their_keys(tmp_path: Path) -> None:
    await DirectoryStore(tmp_path).put("a/b.log", b"1")
    assert (tmp_path / "a" / "b.log").read_bytes() == b"1"


async def test_bytes_and_names_are_synced_before_a_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr("borzoi.objectstore.directory.os.fsync", noted)
    store = DirectoryStore(tmp_path)
    await store.create("k", b"1")
    assert [DRAFT_MARK in synced[0], synced[1]] == [True, str(tmp_path)]
    upload = store.open_multipart("big")
    await upload.part(b"1")
    await upload.complete()
    assert [DRAFT_MARK in synced[2], synced[3]] == [True, str(tmp_path)]


async def test_unfinished_files_are_never_listed_and_removed_when_their_writer_is_gone(
    tmp_path: Path,
) -> None:
    store = DirectoryStore(tmp_path)
    lost = tmp_path / f"{DRAFT_MARK}lost"
    fresh = tmp_path / f"{DRAFT_MARK}fresh"
    lost.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(lost, (0, 0))
    assert await store.list_page("") == []
    upload = store.open_multipart("k", part_size=PART_BYTES_MIN)
    await upload.part(b"1")
    assert not lost.exists()
    assert fresh.exists()
    await upload.abort()


async def test_a_write_that_fails_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = DirectoryStore(tmp_path)
    monkeypatch.setattr("borzoi.objectstore.directory.os.fsync", no_room)
    with pytest.raises(Ambiguous, match="No space left"):
        await store.put("k", b"1")
    assert list(tmp_path.iterdir()) == []


async def test_a_folder_is_no_object(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    await store.put("a/b", b"1")
    for request in (store.get("a"), store.head("a"), store.get("a/b/c")):
        with pytest.raises(ObjectNotFound):
            await request


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_is_denied(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"1")
    (tmp_path / "k").chmod(0)
    with pytest.raises(PermissionDenied):
        await DirectoryStore(tmp_path).get("k")


async def test_a_part_that_is_cancelled_leaves_no_draft(tmp_path: Path) -> None:
    upload = DirectoryStore(tmp_path).open_multipart("k", part_size=PART_BYTES_MIN)
    task = asyncio.create_task(upload.part(bytes(PART_BYTES_MIN)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [path.name for path in tmp_path.iterdir() if DRAFT_MARK not in path.name] == []
