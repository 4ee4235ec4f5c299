"""Every name of a partition's directory, spelled once.

{offset:020}.log              messages, back to back
{offset:020}.index            16 bytes for each of them
{offset:020}.log.{gz|lz4|zst} a sealed segment that was compressed; replaces the .log
recovery.point                how far the log is known to be on the disk
intent                        a truncation or purge that has begun
offsets/consumers, offsets/groups      made with the first offset that is stored
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from borzoi.model.namespace import Namespace

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
#: Suffixes of compressed twins, after ".log".
TWIN_SUFFIXES: Final = (".gz", ".lz4", ".zst")
ALL_TWIN_SUFFIXES: Final = tuple(LOG_SUFFIX + suffix for suffix in TWIN_SUFFIXES)
RECOVERY_POINT: Final = "recovery.point"
INTENT: Final = "intent"
DRAFT_SUFFIX: Final = ".tmp"
OFFSET_DIGITS: Final = 20
#: The trash, next to the folders of the streams, which are numbers.
TRASH: Final = "trash"


def partition_directory(
    root: Path,
    namespace: Namespace,
    *,
    streams: str = "streams",
    topics: str = "topics",
    partitions: str = "partitions",
) -> Path:
    """The directory of a partition below the data directory; the words are configurable."""
    return place_directory(root, namespace, (streams, topics, partitions))


def place_directory(root: Path, place: Sequence[int], words: tuple[str, str, str]) -> Path:
    """The directory of a stream, a topic or a partition, by its one, two or three numbers."""
    # A place without numbers would be the data directory itself, and places are also removed.
    assert 1 <= len(place) <= 3, "a place is a stream, a topic or a partition"
    # In one step: a start makes thousands of these.
    steps = [step for pair in zip(words, map(str, place), strict=False) for step in pair]
    return root.joinpath(*steps)


@lru_cache(maxsize=1024)
def log_name(start_offset: int) -> str:
    """Kept, as that of an index: thousands of partitions have a segment that begins with 0."""
    return f"{start_offset:020}{LOG_SUFFIX}"


@lru_cache(maxsize=1024)
def index_name(start_offset: int) -> str:
    return f"{start_offset:020}{INDEX_SUFFIX}"


def twin_name(start_offset: int, suffix: str) -> str:
    return f"{start_offset:020}{LOG_SUFFIX}{suffix}"


def start_offset_of(name: str, suffix: str) -> int | None:
    """Return the offset in a segment's file name, or None for a foreign name."""
    stem = name.removesuffix(suffix)
    if stem == name or len(stem) != OFFSET_DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)
