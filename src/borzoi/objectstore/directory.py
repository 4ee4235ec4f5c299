"""Objects as files below a directory, for archives on a disk or a network mount.

A write goes to a draft next to its target, under a name that no key can have. It is synced, and
gets its name by a rename (`put`) or a hard link (`create`, which fails when the name is taken). So
a crash leaves the old object, the new one, or a draft that a later upload removes.

A limit that real object stores do not have: `a` and `a/b` cannot both be keys.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from borzoi.objectstore.bounds import PartShape, exact
from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    Unavailable,
)
from borzoi.objectstore.file_reading import read_piece
from borzoi.objectstore.interface import (
    PAGE_KEYS_MAX,
    PART_BYTES_DEFAULT,
    Buffer,
    MultipartUpload,
    ObjectData,
    ObjectMeta,
    PutOutcome,
)
from borzoi.objectstore.keys import checked_key, checked_prefix

#: No key has this character.
DRAFT_MARK: Final = "~"
#: A draft not written to for this long is abandoned.
DRAFT_SECONDS_MAX: Final = 3600.0

P = ParamSpec("P")
T = TypeVar("T")


class DirectoryStore:
    """Files below `root`; the work is done in threads."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, data: Buffer) -> PutOutcome:
        return await self._run("put", key, _write, self._path(key), data, os.replace)

    async def create(self, key: str, data: Buffer) -> PutOutcome:
        return await self._run("create", key, _write, self._path(key), data, os.link)

    def open_multipart(
        self, key: str, *, part_size: int = PART_BYTES_DEFAULT, concurrency: int = 3
    ) -> MultipartUpload:
        return _FileUpload(self, self._path(key), key, part_size)

    async def get(self, key: str) -> ObjectData:
        data, status = await self._run("get", key, _read, self._path(key), 0, None)
        return ObjectData(data, _meta(key, status))

    async def get_range(self, key: str, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        data, _ = await self._run("get_range", key, _read, self._path(key), start, end)
        return exact(data, key, start, end)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [await self.get_range(key, start, end) for start, end in ranges]

    async def get_suffix(self, key: str, length: int) -> tuple[memoryview, int]:
        data, status = await self._run("get_suffix", key, _read, self._path(key), -length, None)
        return data, status.st_size

    async def head(self, key: str) -> ObjectMeta:
        return _meta(key, await self._run("head", key, _status, self._path(key)))

    async def list_page(self, prefix: str, *, start_after: str = "") -> Sequence[ObjectMeta]:
        return await self._run(
            "list", prefix, _page, self._root, checked_prefix(prefix), start_after
        )

    async def delete(self, key: str) -> None:
        await self._run("delete", key, self._path(key).unlink, True)

    async def delete_many(self, keys: Sequence[str]) -> list[str]:
        failed = []
        for key in keys:
            try:
                await self.delete(key)
            except (Ambiguous, PermissionDenied):
                failed.append(key)
        return failed

    async def close(self) -> None:
        pass

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    async def _run(
        self, op: str, key: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run it in a thread, and translate errors of the file system."""
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as fault:
            raise ObjectNotFound(f"there is no such file ({fault})", op=op, key=key) from fault
        except FileExistsError as fault:
            raise ObjectExists("the file exists", op=op, key=key) from fault
        except PermissionError as fault:
            raise PermissionDenied(str(fault), op=op, key=key) from fault
        except OSError as fault:
            family = Ambiguous if op in _WRITES else Unavailable
            raise family(str(fault), op=op, key=key) from fault


_WRITES: Final = frozenset({"put", "create", "part", "complete", "delete"})


class _FileUpload:
    """Parts appended to a draft, which gets its name when complete and synced."""

    def __init__(self, store: DirectoryStore, path: Path, key: str, part_size: int) -> None:
        self._store = store
        self._path = path
        self._key = key
        self._shape = PartShape(key, part_size)
        self._draft: Path | None = None

    async def part(self, data: Buffer) -> None:
        self._shape.check(len(data))
        try:
            if self._draft is None:
                self._draft = await self._store._run("part", self._key, _new_draft, self._path)
            await self._store._run("part", self._key, _append, self._draft, data)
        except BaseException:
            await asyncio.shield(self.abort())
            raise

    async def complete(self) -> PutOutcome:
        assert self._draft is not None, "an upload has at least one part"
        await self._store._run("complete", self._key, _name, self._draft, self._path, os.replace)
        self._draft = None
        return PutOutcome(None, self._shape.size, self._shape.count)

    async def abort(self) -> None:
        draft, self._draft = self._draft, None
        if draft is not None:
            await self._store._run("abort", self._key, draft.unlink, True)


# What runs in threads. ----------------------------------------------------------------------------


def _write(path: Path, data: Buffer, give_name: Callable[[Path, Path], None]) -> PutOutcome:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{DRAFT_MARK}{uuid.uuid4().hex}")
    try:
        _append(draft, data)
        _name(draft, path, give_name)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return PutOutcome(None, len(data))


def _append(draft: Path, data: Buffer) -> None:
    with draft.open("ab", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _name(draft: Path, path: Path, give_name: Callable[[Path, Path], None]) -> None:
    """Sync a draft, give it its name, then make the name durable as well."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    give_name(draft, path)
    draft.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _new_draft(path: Path) -> Path:
    """Create a draft next to `path`, and remove abandoned ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for entry in path.parent.glob(f"{DRAFT_MARK}*"):
        try:
            if entry.stat().st_mtime < time.time() - DRAFT_SECONDS_MAX:
                entry.unlink()
        except FileNotFoundError:
            continue
    return path.with_name(f"{DRAFT_MARK}{uuid.uuid4().hex}")


def _read(path: Path, start: int, end: int | None) -> tuple[memoryview, os.stat_result]:
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if start < 0:
            start = max(status.st_size + start, 0)
        end = status.st_size if end is None else min(end, status.st_size)
        return read_piece(file.fileno(), max(end - start, 0), start), status


def _status(path: Path) -> os.stat_result:
    status = path.stat()
    if path.is_dir():
        raise IsADirectoryError(path)
    return status


def _meta(key: str, status: os.stat_result) -> ObjectMeta:
    return ObjectMeta(key, status.st_size, None, status.st_mtime_ns // 1000)


def _page(root: Path, prefix: str, start_after: str) -> list[ObjectMeta]:
    page = []
    for key, entry in _files(str(root), "", prefix, start_after):
        try:
            page.append(_meta(key, entry.stat()))
        except FileNotFoundError:
            continue  # deleted since its directory was read
        if len(page) == PAGE_KEYS_MAX:
            break
    return page


def _files(
    folder: str, parents: str, prefix: str, start_after: str
) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Yield files in the order of their keys; folders without a matching key are skipped.

    A folder sorts as its name with a slash, as in the keys.
    """
    try:
        with os.scandir(folder) as found:
            entries = [
                (entry.name + "/" if entry.is_dir() else entry.name, entry)
                for entry in found
                if not entry.name.startswith(DRAFT_MARK)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(entries, key=lambda pair: pair[0]):
        key = parents + name
        if name.endswith("/"):
            is_wanted = key.startswith(prefix) or prefix.startswith(key)
            if is_wanted and (key > start_after or start_after.startswith(key)):
                yield from _files(entry.path, key, prefix, start_after)
        elif key.startswith(prefix) and key > start_after:
            yield key, entry
