"""Uploads files to a store: read in threads, verified afterwards, never whole in memory."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import xxhash

from borzoi.archive.markers import FileMark
from borzoi.objectstore.errors import Corrupt
from borzoi.objectstore.file_reading import read_piece
from borzoi.objectstore.interface import PART_BYTES_DEFAULT, ObjectStore
from borzoi.objectstore.multipart import BufferedMultipartWriter

CHECK_NONE: Final = "none"
CHECK_SIZE: Final = "size"
CHECK_CHECKSUM: Final = "checksum"
CHECKS: Final = (CHECK_NONE, CHECK_SIZE, CHECK_CHECKSUM)


class OpenFile:
    """An open file that stays readable after it is unlinked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, length: int, position: int) -> memoryview:
        """Read exactly `length` bytes; `Corrupt` when the file has become shorter."""
        piece = read_piece(self._descriptor, length, position)
        if len(piece) < length:
            raise Corrupt(f"{self.path} ends at byte {position + len(piece)}")
        return piece

    def close(self) -> None:
        os.close(self._descriptor)


async def upload_file(
    store: ObjectStore,
    key: str,
    file: OpenFile,
    size: int,
    *,
    part_size: int = PART_BYTES_DEFAULT,
    check: str = CHECK_SIZE,
) -> FileMark:
    """Copy the first `size` bytes of a file to `key`.

    The next part is read while others are in flight; the writer bounds their number.
    """
    writer = BufferedMultipartWriter(store, key, part_size=part_size)
    try:
        for position in range(0, size, part_size):
            length = min(part_size, size - position)
            await writer.append(await asyncio.to_thread(file.read, length, position))
        checksum = f"{writer.checksum:016x}"
        await writer.seal()
    except BaseException:
        # Shielded from cancellation: an upload that stays open costs money.
        await asyncio.shield(writer.abort())
        raise
    mark = FileMark(file.path.name, size, checksum)
    await check_copy(store, key, mark, check)
    return mark


async def upload_bytes(
    store: ObjectStore, key: str, name: str, data: bytes, *, check: str
) -> FileMark:
    """The same for bytes in memory."""
    await store.put(key, data)
    mark = FileMark(name, len(data), f"{xxhash.xxh3_64_intdigest(data):016x}")
    await check_copy(store, key, mark, check)
    return mark


async def check_copy(store: ObjectStore, key: str, mark: FileMark, check: str) -> None:
    """Verify the copy as far as `check` says; `Corrupt` when it differs from what was sent."""
    match check:
        case "size":
            found = (await store.head(key)).size
            if found != mark.size:
                raise Corrupt(f"{found} of {mark.size} bytes arrived", op="head", key=key)
        case "checksum":
            await verify_object(store, key, mark)


async def verify_object(
    store: ObjectStore,
    key: str,
    mark: FileMark,
    *,
    chunk: int = PART_BYTES_DEFAULT,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Read an object piece by piece, and compare; `Corrupt` says how it differs.

    `advance` is called with the bytes of each piece.
    """
    found = (await store.head(key)).size
    if found != mark.size:
        raise Corrupt(f"it has {found} bytes instead of {mark.size}", op="head", key=key)
    checksum = xxhash.xxh3_64()
    for position in range(0, mark.size, chunk):
        end = min(position + chunk, mark.size)
        piece = await store.get_range(key, position, end)
        await asyncio.to_thread(checksum.update, piece)
        advance(end - position)
    if f"{checksum.intdigest():016x}" != mark.xxh3:
        raise Corrupt(
            f"its checksum is {checksum.intdigest():016x} instead of {mark.xxh3}",
            op="get_range",
            key=key,
        )
