import asyncio
import os
from pathlib import Path

import pytest
import xxhash

from borzoi.archive.uploading import (
    CHECKS,
    OpenFile,
    check_copy,
    upload_bytes,
    upload_file,
    verify_object,
)
from borzoi.objectstore.errors import Corrupt, Unavailable
from borzoi.objectstore.interface import PART_BYTES_MIN
from borzoi.objectstore.memory import MemoryStore


@pytest.mark.parametrize("size", [1, 1000, PART_BYTES_MIN, 2 * PART_BYTES_MIN + 17])
@pytest.mark.parametrize("check", CHECKS)
async def test_a_file_arrives_as_it_is(tmp_path: Path, size: int, check: str) -> None:
    data = os.urandom(size)
    (tmp_path / "f.log").write_bytes(data + b"more, which is not copied")
    store, file = MemoryStore(), OpenFile(tmp_path / "f.log")
    mark = await upload_file(store, "k", file, size, part_size=PART_BYTES_MIN, check=check)
    file.close()
    assert (mark.name, mark.size) == ("f.log", size)
    assert mark.xxh3 == f"{xxhash.xxh3_64_intdigest(data):016x}"
    assert bytes((await store.get("k")).data) == data
    await verify_object(store, "k", mark, chunk=1000)


async def test_a_file_can_be_read_after_its_name_is_gone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    file = OpenFile(tmp_path / "f")
    (tmp_path / "f").unlink()
    store = MemoryStore()
    await upload_file(store, "k", file, 5)
    assert bytes((await store.get("k")).data) == b"12345"
    with pytest.raises(Corrupt, match="ends at byte 5"):
        file.read(3, 4)
    file.close()


async def test_copies_that_differ_are_found() -> None:
    store = MemoryStore()
    mark = await upload_bytes(store, "k", "name", b"12345", check="checksum")
    await store.put("k", b"12x45")
    await check_copy(store, "k", mark, "none")
    await check_copy(store, "k", mark, "size")
    with pytest.raises(Corrupt, match="its checksum is"):
        await check_copy(store, "k", mark, "checksum")
    await store.put("k", b"1234")
    with pytest.raises(Corrupt, match="4 of 5 bytes arrived"):
        await check_copy(store, "k", mark, "size")
    with pytest.raises(Corrupt, match="4 bytes instead of 5"):
        await verify_object(store, "k", mark)


async def test_a_failed_or_cancelled_upload_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(3 * PART_BYTES_MIN))

    class Failing(MemoryStore):
        begun = asyncio.Event()
        fails = True

        def open_multipart(self, key, **keywords):
            upload = super().open_multipart(key, **keywords)
            real = upload.part

            async def part(data):
                self.begun.set()
                if self.fails:
                    raise Unavailable("down")
                await real(data)
                await asyncio.Event().wait()

            upload.part = part  # type: ignore[method-assign]
            return upload

    store, file = Failing(), OpenFile(tmp_path / "f")
    with pytest.raises(Unavailable):
        await upload_file(store, "k", file, file.size, part_size=PART_BYTES_MIN)
    store.fails = False
    store.begun.clear()
    task = asyncio.create_task(upload_file(store, "k", file, file.size, part_size=PART_BYTES_MIN))
    await store.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.list_page("") == []
    file.close()
