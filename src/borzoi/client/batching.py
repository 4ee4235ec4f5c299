"""Which messages are sent together, and when; pure, and time is an argument.

Messages gather in *lanes*, one per partition that they were meant for. A lane sends one batch at a
time, so the messages of a partition keep their order even when a batch has to be resent. A batch
is due when it is full, when its first message is old enough, or on a flush.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from borzoi.client.sending import Sendable
from borzoi.model.errors import InvalidFormat
from borzoi.model.limits import HEADER_BYTES

OutcomeT = TypeVar("OutcomeT")


@dataclass(frozen=True, slots=True)
class Batching:
    """Limits of a batch: at most this many messages and, beyond its first message, this many
    bytes; it waits at most `linger` seconds for more."""

    linger: float = 0.005
    batch_messages: int = 1000
    batch_bytes: int = 1024 * 1024
    #: The limit for all messages that the server has not acknowledged, in flight or not.
    buffer_bytes: int = 32 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in ("batch_messages", "batch_bytes", "buffer_bytes"):
            if getattr(self, name) < 1:
                raise InvalidFormat(f"{name} is {getattr(self, name)}; at least 1 is allowed")
        if self.linger < 0:
            raise InvalidFormat(f"linger is {self.linger} seconds; 0 or more is allowed")


@dataclass(slots=True, eq=False)
class OutgoingBatch(Generic[OutcomeT]):
    """Messages that are sent together, and their outcome."""

    lane: Hashable
    outcome: OutcomeT
    due_at: float
    messages: list[Sendable] = field(default_factory=list)
    size: int = 0
    is_closed: bool = False


class Gathering(Generic[OutcomeT]):
    """The pending messages."""

    def __init__(self, batching: Batching, new_outcome: Callable[[int | None], OutcomeT]) -> None:
        self._batching = batching
        self._new_outcome = new_outcome
        #: Batches of each lane in the order they are sent; the first may be in flight.
        self._lanes: dict[Hashable, deque[OutgoingBatch[OutcomeT]]] = {}
        self._on_their_way: set[Hashable] = set()
        #: Bytes of all batches, in flight or not.
        self.size = 0

    def has_room(self, size: int) -> bool:
        """Whether a message of this size may be added; an empty buffer accepts any."""
        return self.size + size + HEADER_BYTES <= self._batching.buffer_bytes or not self.size

    def add(
        self, lane: Hashable, message: Sendable, size: int, now: float
    ) -> OutgoingBatch[OutcomeT]:
        """Put a message into a batch of its lane and return the batch."""
        size += HEADER_BYTES
        batching = self._batching
        batches = self._lanes.get(lane)
        if batches is None:
            batches = self._lanes[lane] = deque()
        batch = batches[-1] if batches else None
        if batch is None or batch.is_closed or batch.size + size > batching.batch_bytes:
            if batch is not None:
                batch.is_closed = True
            partition = lane if isinstance(lane, int) else None
            batch = OutgoingBatch(lane, self._new_outcome(partition), now + batching.linger)
            batches.append(batch)
        batch.messages.append(message)
        batch.size += size
        self.size += size
        if len(batch.messages) >= batching.batch_messages or batch.size >= batching.batch_bytes:
            batch.is_closed = True
        return batch

    def due(self, now: float, *, everything: bool = False) -> list[OutgoingBatch[OutcomeT]]:
        """Return the batches to send now, at most one per lane; they are in flight from here on."""
        found = []
        for lane, batches in self._lanes.items():
            batch = batches[0]
            if lane in self._on_their_way:
                continue
            if batch.is_closed or everything or batch.due_at <= now:
                batch.is_closed = True
                self._on_their_way.add(lane)
                found.append(batch)
        return found

    def next_due_at(self) -> float | None:
        """When the next batch of a lane with nothing in flight is due."""
        return min(
            (
                0.0 if batches[0].is_closed else batches[0].due_at
                for lane, batches in self._lanes.items()
                if lane not in self._on_their_way
            ),
            default=None,
        )

    def arrived(self, batch: OutgoingBatch[OutcomeT]) -> None:
        """Remove a batch that was stored or has failed."""
        self._on_their_way.discard(batch.lane)
        batches = self._lanes[batch.lane]
        assert batches.popleft() is batch
        if not batches:
            del self._lanes[batch.lane]
        self.size -= batch.size

    def waiting(self) -> list[OutgoingBatch[OutcomeT]]:
        """All batches that the server has not acknowledged."""
        return [batch for batches in self._lanes.values() for batch in batches]
