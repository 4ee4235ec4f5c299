"""The settings of a partition's log; plain values, built by the composition root."""

from enum import StrEnum
from typing import Final

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.limits import SEGMENT_BYTES_MAX
from borzoi.model.value import Value

SEGMENT_BYTES_DEFAULT: Final = 1 << 30
SEGMENT_BYTES_STEP: Final = 512


class Acknowledge(StrEnum):
    """Where the messages of a send are when it is answered."""

    #: In the memory journal: nothing survives before the next save.
    BUFFERED = "buffered"
    #: In the kernel's page cache: they survive kill -9.
    WRITTEN = "written"
    #: On the disk: they survive a power cut.
    SYNCED = "synced"


class CacheIndexes(StrEnum):
    """Which index entries stay in memory, within the bounds of `storage/index.py`.

    What is not in memory is read from the file, so this trades memory for a system call per poll.
    """

    ALL = "all"
    OPEN_SEGMENT = "open_segment"
    NONE = "none"


class SegmentSettings(Value):
    #: A segment that has reached this many bytes is sealed soon; `storage/fullness.py` says when.
    size: int = SEGMENT_BYTES_DEFAULT
    cache_indexes: CacheIndexes = CacheIndexes.OPEN_SEGMENT

    def __post_init__(self) -> None:
        if self.size % SEGMENT_BYTES_STEP or not 0 < self.size <= SEGMENT_BYTES_MAX:
            raise InvalidConfiguration(
                f"a segment has a multiple of {SEGMENT_BYTES_STEP} bytes up to {SEGMENT_BYTES_MAX},"
                f" not {self.size}"
            )


class PartitionSettings(Value):
    acknowledge: Acknowledge = Acknowledge.WRITTEN
    #: Both bound the journal of `buffered`; whichever is reached first saves it. At every level
    #: they decide where segments end (`storage/fullness.py`).
    messages_required_to_save: int = 1024
    size_of_messages_required_to_save: int = 1 << 20
    #: Read and check every stored message when the log is opened.
    validate_checksum: bool = False

    def __post_init__(self) -> None:
        if self.messages_required_to_save < 1 or self.size_of_messages_required_to_save < 1:
            raise InvalidConfiguration("a journal is saved after at least one message or byte")


DEFAULT_SEGMENT: Final = SegmentSettings()
DEFAULT_PARTITION: Final = PartitionSettings()
