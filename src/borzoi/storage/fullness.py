"""When a segment is full, by the rule of the published servers: segments end at the same messages.

They keep messages in memory until there are `messages_required_to_save` of them, or as many bytes,
and after each append look at what is saved. A segment that had its size before the append is sealed
behind it. Here messages may be in the file long before; what counts is when they would be saved.
"""

from borzoi.storage.settings import PartitionSettings


class Fullness:
    """How much of the open segment of a log counts as saved."""

    __slots__ = ("_bytes_max", "_settings", "due_offset", "due_size")

    def __init__(self, bytes_max: int, settings: PartitionSettings) -> None:
        self._bytes_max = bytes_max
        self._settings = settings
        #: Below both of these nothing changes, and `reached_by` need not be called.
        self.due_size = self.due_offset = 0
        self.saved(0, 0)

    def saved(self, size: int, offset: int) -> None:
        """All of the segment is saved: `size` bytes, with messages below `offset`."""
        settings = self._settings
        is_full = size >= self._bytes_max
        self.due_size = 0 if is_full else size + settings.size_of_messages_required_to_save
        self.due_offset = offset + settings.messages_required_to_save

    def reached_by(self, size: int, offset: int) -> bool:
        """Whether to seal the segment, which has grown to this by one append."""
        if not self.due_size:
            return True
        if size >= self.due_size or offset >= self.due_offset:
            self.saved(size, offset)
        return False
