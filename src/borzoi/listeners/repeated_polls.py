"""Polls like the last one of their connection, answered without decoding them again.

A consumer repeats all of a poll but its offset: it reads on, or asks again because nothing was new.
Such a frame differs from the last one in eight bytes at most. While the metadata is the same, it
needs no other check, and while the log is, its messages may lie in memory already
(`storage/kept.py`): those that this consumer reads on in, whoever else reads elsewhere.

Only polls by a single consumer from an offset, without a commit: all others depend on more than
their bytes and the log.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from borzoi.handlers.answers import Delivery
from borzoi.handlers.dispatch import Performed
from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.partitions.statistics import current_offset_of
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import POLLED_PREFIX
from borzoi.protocol.framing import CODE_BYTES, PREFIX_BYTES, REQUEST_PREFIX, RESPONSE_PREFIX
from borzoi.storage.kept import nothing_kept
from borzoi.storage.reading import Reading

#: The start of a response to a poll: status, length, and the fixed start of the payload.
POLLED_HEAD: Final = struct.Struct(RESPONSE_PREFIX.format + POLLED_PREFIX.format.removeprefix("<"))
assert POLLED_HEAD.size == RESPONSE_PREFIX.size + POLLED_PREFIX.size
POLLED_PREFIX_BYTES: Final = POLLED_PREFIX.size
_polled_head: Final = POLLED_HEAD.pack

#: What follows the offset in a poll: how many messages, and whether to commit.
REST_BYTES: Final = 5
OFFSET_BYTES: Final = 8

NOTHING_KEPT: Final = nothing_kept(0)


class RepeatedPoll:
    """What the next poll of a connection may have in common with the last one: that of `user_id`,
    permitted in this `revision` of the metadata."""

    __slots__ = (
        "_count",
        "_elsewhere",
        "_end",
        "_kept",
        "_namespace",
        "_offset",
        "_owned",
        "_payload",
        "_rest",
        "_size_max",
        "_start",
        "_unpack",
        "_was_missed",
        "revision",
        "size",
        "user_id",
    )

    def __init__(
        self,
        user_id: int | None,
        revision: int,
        owned: Mapping[Namespace, Partition],
        namespace: Namespace,
        payload: bytes,
        offset: int,
        count: int,
        size_max: int,
        elsewhere: Callable[[int], Performed] | None = None,
    ) -> None:
        """`elsewhere` answers it at an offset, if another shard has the partition."""
        self.user_id = user_id
        self.revision = revision
        self._owned = owned
        self._namespace = namespace
        self._count = count
        self._size_max = size_max
        self._elsewhere = elsewhere
        #: The first and the next offset of the last poll whose messages were not in memory.
        self._offset = offset
        self._end = offset + count
        self._kept = NOTHING_KEPT
        self._payload = payload
        #: Bytes of a whole frame.
        self.size = PREFIX_BYTES + len(payload)
        #: The bytes before the offset; none until the next frame has the same size.
        self._start = b""
        self._was_missed = False

    def is_missed_once(self) -> bool:
        """Another request came instead. After one, a commit as it may be, the next poll may be like
        the last one again."""
        was_missed, self._was_missed = self._was_missed, True
        return not was_missed

    def _take_apart(self) -> None:
        """Find the bytes before and behind the offset."""
        payload = self._payload
        self._start = (
            REQUEST_PREFIX.pack(CODE_BYTES + len(payload), Code.POLL_MESSAGES)
            + (payload[: -OFFSET_BYTES - REST_BYTES])
        )
        self._rest = payload[-REST_BYTES:]
        self._unpack = _unpack_frame(self.size)

    def answer(self, frame: memoryview) -> "bytes | Performed":
        """The answer to this whole frame of `size` bytes, its future, or the response; None when it
        is another request, or is to be looked at more closely. Raises `StorageFailure`."""
        if not self._start:
            self._take_apart()
        start, offset, rest = self._unpack(frame)
        if start != self._start or rest != self._rest:
            return None
        self._was_missed = False
        partition = self._owned.get(self._namespace)
        if partition is None:
            return None if self._elsewhere is None else self._elsewhere(offset)
        log, kept = partition.log, self._kept
        visible = log.visible_offset
        end = offset + self._count
        if end > visible:
            end = visible
        if kept.edition == log.edition:
            number = self._namespace.partition_id
            if kept.first_offset <= offset < end <= kept.end_offset:
                content = kept.content(offset, end)
                size = len(content)
                if size <= self._size_max:
                    size += POLLED_PREFIX_BYTES
                    return _polled_head(0, size, number, visible - 1, end - offset) + content
            elif offset >= visible:
                return _polled_head(0, POLLED_PREFIX_BYTES, number, current_offset_of(log), 0)
        return self._read(partition, offset, end)

    def _read(self, partition: Partition, offset: int, end: int) -> Delivery | None:
        """The same where the messages are not in memory. The next ones may be, if this consumer
        asks for the same again, or reads on where there are more."""
        if not partition.is_plain:
            return None
        log, kept = partition.log, self._kept
        goes_on = offset == self._end or kept.first_offset <= offset <= kept.end_offset
        if offset < end and (offset == self._offset or (goes_on and end < log.visible_offset)):
            self._kept = log.kept(offset, end) or NOTHING_KEPT
        self._offset, self._end = offset, end
        reading = log.read(offset, self._count, self._size_max)
        if not isinstance(reading, Reading) or reading.tail:
            return None
        if not reading.count:
            # It could be read, and nothing is there until its edition or its end changes.
            self._kept = nothing_kept(log.edition)
        return Delivery(self._namespace.partition_id, current_offset_of(log), reading)


@cache
def _unpack_frame(size: int) -> Callable[[memoryview], tuple[bytes, int, bytes]]:
    """Takes a poll of this size apart: the bytes before the offset, the offset, and the rest."""
    return struct.Struct(f"<{size - OFFSET_BYTES - REST_BYTES}sQ{REST_BYTES}s").unpack
