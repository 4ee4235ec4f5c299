"""The configuration of one replica of one group; constant for its life."""

from typing import Final, Protocol, Self

import msgspec

from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import HEADER_BYTES
from borzoi.model.value import Value

# DoViewChange carries at most 128 headers: the commit and 127 ops above it (V8).
PIPELINE_CEILING: Final = 127
SUFFIX_HEADERS_MAX: Final = 128
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
RELEASE: Final = 1
# Operations every release knows need no gate; newer ones are listed as (operation, release).
BASE_RELEASE: Final = 1
NEWER_OPERATIONS: Final[tuple[tuple[int, int], ...]] = ()
NEVER_TICKS: Final = 1 << 40
# When a group takes a checkpoint: after a number of ops, bytes of journal, or ticks. Those of the
# control plane are in K1, bytes and time of the data plane in K3; its ops bound the headers that
# are kept in memory.
CONTROL_CHECKPOINT: Final = (960, 64 * 1024 * 1024, NEVER_TICKS)
DATA_CHECKPOINT: Final = (65_536, 256 * 1024 * 1024, 6_000)


class Randomness(Protocol):
    """The only dice of the core: ``random.Random`` seeded per (seed, replica, group)."""

    def randrange(self, stop: int, /) -> int: ...


class Timeouts(Value):
    """Lengths in ticks of 10 ms (T1); jitter is the number of ticks added at random."""

    ping: int = 100
    prepare: int = 25
    commit_message: int = 50
    normal_heartbeat: int = 500
    normal_heartbeat_jitter: int = 100
    start_view_change: int = 50
    view_change_status: int = 500
    view_change_status_jitter: int = 250
    do_view_change: int = 50
    request_start_view: int = 100
    repair: int = 10
    primary_abdicate: int = 1000
    lease: int = 200
    state_transfer_stall: int = 100
    clock_sync: int = 2000

    def __post_init__(self) -> None:
        invariant(
            self.normal_heartbeat >= 4 * self.commit_message,
            "normal_heartbeat must be at least four times commit_message",
        )
        # A replica that answers the primary promises to start no view for twice the lease (L1).
        # Clocks may differ by a factor of two, and the promise must end before the heartbeat
        # timer fires.
        invariant(
            2 * self.lease <= self.normal_heartbeat, "normal_heartbeat must cover twice the lease"
        )

    @classmethod
    def fast(cls) -> Self:
        """For tests and local networks: fails over in about a second."""
        return cls(
            ping=20,
            prepare=10,
            commit_message=10,
            normal_heartbeat=100,
            normal_heartbeat_jitter=20,
            start_view_change=10,
            view_change_status=150,
            view_change_status_jitter=75,
            do_view_change=10,
            request_start_view=20,
            repair=4,
            primary_abdicate=200,
            lease=40,
            state_transfer_stall=20,
            clock_sync=400,
        )


class Config(Value):
    cluster: bytes
    replica_id: int
    replica_count: int
    group: int = 0
    pipeline_max: int = 32
    request_queue_max: int = 64
    # 0: as CONTROL_CHECKPOINT or DATA_CHECKPOINT have it.
    checkpoint_interval: int = 0
    checkpoint_bytes: int = 0
    checkpoint_ticks: int = 0
    retain_ops: int = 1024
    client_table_max: int = 8192
    chunk_bytes: int = CHUNK_BYTES
    frame_bytes_max: int = FRAME_BYTES_MAX
    release: int = RELEASE
    newer_operations: tuple[tuple[int, int], ...] = NEWER_OPERATIONS
    data_groups: int = 1
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)

    def __post_init__(self) -> None:
        invariant(len(self.cluster) == 16, "a cluster id is 16 bytes")
        invariant(0 <= self.replica_id < self.replica_count, "replica_id is an index of the roster")
        invariant(1 <= self.pipeline_max <= PIPELINE_CEILING, "pipeline_max is 1 to 127")
        rules = DATA_CHECKPOINT if self.group else CONTROL_CHECKPOINT
        names = ("checkpoint_interval", "checkpoint_bytes", "checkpoint_ticks")
        for name, usual in zip(names, rules, strict=True):
            invariant(getattr(self, name) >= 0, f"{name} is not negative")
            if getattr(self, name) == 0:
                msgspec.structs.force_setattr(self, name, usual)
        invariant(self.chunk_bytes + HEADER_BYTES <= self.frame_bytes_max, "a chunk fits a frame")
