"""When a segment is full, by the rule of the published servers: segments end at the same messages.

They keep messages in memory until there are `messages_required_to_save` of them, or as many bytes,
and after each append look at what is saved. A segment that had its size before the append is sealed
behind it. Here messages may be in the file long before; what counts is when they would be saved.
"""

from borzoi.storage.settings import PartitionSettings


class Fullness:
    """How much of the open segment of a log counts as saved."""

    __slots__ = ("_bytes_max", "_saved_offset", "_saved_size", "_settings")

    def __init__(self, bytes_max: int, settings: PartitionSettings) -> None:
        self._bytes_max = bytes_max
        self._settings = settings
        self._saved_size = self._saved_offset = 0

    def saved(self, size: int, offset: int) -> None:
        """All of the segment is saved: `size` bytes, with messages below `offset`."""
        self._saved_size = size
        self._saved_offset = offset

    def reached_by(self, size: int, offset: int) -> bool:
        """Whether to seal the segment, which has grown to this by one append."""
        if self._saved_size >= self._bytes_max:
            return True
        settings = self._settings
        if (
            offset - self._saved_offset >= settings.messages_required_to_save
            or size - self._saved_size >= settings.size_of_messages_required_to_save
        ):
            self._saved_size = size
            self._saved_offset = offset
        return False
