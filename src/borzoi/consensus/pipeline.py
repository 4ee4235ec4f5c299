"""Prepares in flight at the primary, with a queue per partition and ack bitsets (N3, D1)."""

from collections import deque
from typing import Final

import msgspec

from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import U128, ZERO, Prepare

LOCAL: Final = -1


class Queued(msgspec.Struct, eq=False):
    """A request that was accepted and waits for room in the pipeline."""

    client: U128
    request: int
    operation: int
    payload: bytes
    request_checksum: U128
    user_id: int
    epoch: int
    origin: int


class InFlight:
    """An op the primary has prepared and not yet committed."""

    __slots__ = ("acks", "header", "op", "origin", "partition", "prepared_us")

    def __init__(
        self, header: Prepare, acks: int, origin: int | None, partition: int, prepared_us: int
    ) -> None:
        self.header = header
        self.op = header.op
        self.acks = acks
        self.origin = origin
        self.partition = partition
        self.prepared_us = prepared_us


class CommitPipeline(msgspec.Struct, eq=False):
    """Commit is strictly in op order; the partition queues only count and limit (D1)."""

    depth_max: int
    queue_max: int
    entries: deque[InFlight] = msgspec.field(default_factory=deque)
    queue: deque[Queued] = msgspec.field(default_factory=deque)
    partitions: dict[int, deque[int]] = {}
    #: Clients with a Register that is not applied yet: their older epoch must not act after it.
    registering: set[U128] = msgspec.field(default_factory=set)
    #: Highest request of each client that is queued or in flight, and how many there are.
    _highest: dict[U128, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def is_full(self) -> bool:
        return len(self.entries) >= self.depth_max

    def holds(self, client: U128, request: int) -> bool:
        """Whether this request, or a later one of the client, is already in flight (C1)."""
        highest = self._highest.get(client)
        return highest is not None and request <= highest[0]

    def enqueue(self, queued: Queued) -> bool:
        """False when the queue is full: the caller says so to the client, nothing is dropped."""
        if len(self.queue) >= self.queue_max:
            return False
        self.queue.append(queued)
        self._remember(queued.client, queued.request)
        return True

    def dequeue(self) -> Queued:
        """Take the oldest request; it stays remembered until it commits or is refused."""
        return self.queue.popleft()

    def append(self, entry: InFlight) -> None:
        invariant(len(self.entries) < self.depth_max, "the pipeline has room for one more op")
        invariant(
            not self.entries or entry.op == self.entries[-1].op + 1, "ops in flight are consecutive"
        )
        self.entries.append(entry)
        queue = self.partitions.get(entry.partition)
        if queue is None:
            queue = self.partitions[entry.partition] = deque()
        queue.append(entry.op)

    def pop(self) -> InFlight:
        """The oldest op in flight has committed."""
        entry = self.entries.popleft()
        queue = self.partitions[entry.partition]
        invariant(queue.popleft() == entry.op, "a partition's ops commit in order")
        if not queue:
            del self.partitions[entry.partition]
        return entry

    def forget(self, client: U128, request: int) -> None:
        """A request that was remembered got its answer."""
        if client == ZERO:
            return
        highest = self._highest.get(client)
        if highest is None:
            return
        if highest[1] == 1:
            del self._highest[client]
        else:
            self._highest[client] = (max(highest[0], request), highest[1] - 1)

    def _remember(self, client: U128, request: int) -> None:
        if client == ZERO:
            return
        highest, count = self._highest.get(client, (request, 0))
        self._highest[client] = (max(highest, request), count + 1)

    def acknowledge(self, replica: int, op_max: int) -> None:
        """Cumulative (N5, N6): every op in flight up to ``op_max`` is durable at ``replica``."""
        bit = 1 << replica
        for entry in self.entries:
            if entry.op > op_max:
                return
            entry.acks |= bit

    def withdraw(self, replica: int) -> None:
        """A replica lost its disk: what it acknowledged in its former life counts no more (G2)."""
        for entry in self.entries:
            entry.acks &= ~(1 << replica)

    def has_waiters(self) -> bool:
        return bool(self.queue) or any(entry.origin is not None for entry in self.entries)

    def clear(self) -> None:
        self.entries.clear()
        self.queue.clear()
        self.partitions.clear()
        self._highest.clear()
        self.registering.clear()
