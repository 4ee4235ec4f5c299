"""What one replica of one group is told at construction; constant for its life."""

from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import HEADER_BYTES

# DoViewChange carries at most 128 headers: the commit and 127 ops above it (4.1).
PIPELINE_CEILING: Final = 127
SUFFIX_HEADERS_MAX: Final = 128
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
RELEASE: Final = 1
# Operations every release knows need no gate; newer ones are listed as (operation, release).
BASE_RELEASE: Final = 1
NEWER_OPERATIONS: Final[tuple[tuple[int, int], ...]] = ()
NEVER_TICKS: Final = 1 << 40
# When a group takes a checkpoint: after so many ops, or bytes of journal, or ticks. Those of the
# control plane are in 4.8, bytes and time of the data plane in 6.6; its ops bound the headers that
# are kept in memory.
CONTROL_CHECKPOINT: Final = (960, 64 * 1024 * 1024, NEVER_TICKS)
DATA_CHECKPOINT: Final = (65_536, 256 * 1024 * 1024, 6_000)


class Randomness(Protocol):
    """The only dice of the core: ``random.Random`` seeded per (seed, replica, group)."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Lengths in ticks of 10 ms (4.10); jitter is the number of ticks added at random."""

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
        # Who answers the primary promises to start no view for twice the lease (4.12): clocks may
        # differ by a factor of two, and the promise must end before the heartbeat timer fires.
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


@dataclass(frozen=True, slots=True)
class PlantedBugs:
    """Each switch breaks one rule where it is kept; the campaign must notice (10.7)."""

    view_not_persisted: bool = False  # P9, section 5: messages of a view before its superblock
    suffix_not_persisted: bool = False  # P8: log_view is raised without the decided headers
    commit_not_persisted: bool = False  # M1, M2: no durable lower bound of the commit
    ack_before_fsync: bool = False  # P4, P11
    ack_before_superblock: bool = False  # section 5: PrepareOk before (view, log_view) is durable
    ack_skips_hole: bool = False  # M5, N5
    ack_by_op_number: bool = False  # P12, N6
    own_ack_before_fsync: bool = False  # N3
    nack_quorum_of_one: bool = False  # 4.4
    corrupt_entry_nacked: bool = False  # P7, V8
    truncate_without_copy: bool = False  # P6, 4.4
    blank_is_nack: bool = False  # M1, 4.4
    merge_ignores_log_view: bool = False  # 4.4 step 1
    second_dvc_counts: bool = False  # P10, 4.4
    dvc_rebuilt_on_resend: bool = False  # P10, V9
    adopt_drops_unverified: bool = False  # P1, A3
    amnesia_rejoin: bool = False  # P3, G2
    wiped_acks_before_barrier: bool = False  # G2
    forgetful_counts: bool = False  # P3, G2
    primary_resumes_view: bool = False  # V6
    view_change_quorum_minus_one: bool = False  # 2.2
    replication_quorum_minus_one: bool = False  # 2.2
    apply_uncanonical: bool = False  # N7
    repair_by_op_number: bool = False  # 4.6
    stale_prepare_accepted: bool = False  # N4
    start_view_without_suffix: bool = (
        False  # A2: the answer to a probe decides as much as the first one
    )
    start_view_before_repair: bool = False  # 4.4 step 7
    stale_commit_accepted: bool = False  # N7: a commit number of another view
    client_table_not_in_checkpoint: bool = False  # P13
    duplicate_request_executed: bool = False  # 4.7
    lease_never_lapses: bool = False  # 4.12
    join_first_vote: bool = False  # P5, V2
    genesis_with_majority: bool = False  # G1
    truncate_before_checkpoint_durable: bool = False  # section 5
    transfer_keeps_stale_journal: bool = False  # 4.8: records above an installed floor
    old_heartbeat_accepted: bool = False  # N8
    repair_only_on_messages: bool = False  # M4
    backoff_never_reset: bool = False  # N9, M3
    timestamp_from_local_clock: bool = False  # 4.11
    reordered_prepare_dropped: bool = False  # M3, N4
    stamped_from_applied_end: bool = False  # D3, 6.4: ignores what is in the pipeline
    generation_not_in_checkpoint: bool = False  # 6.6


@dataclass(frozen=True, slots=True)
class Config:
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
    timeouts: Timeouts = field(default_factory=Timeouts)
    bugs: PlantedBugs = field(default_factory=PlantedBugs)

    def __post_init__(self) -> None:
        invariant(len(self.cluster) == 16, "a cluster id is 16 bytes")
        invariant(0 <= self.replica_id < self.replica_count, "replica_id is an index of the roster")
        invariant(1 <= self.pipeline_max <= PIPELINE_CEILING, "pipeline_max is 1 to 127")
        rules = DATA_CHECKPOINT if self.group else CONTROL_CHECKPOINT
        names = ("checkpoint_interval", "checkpoint_bytes", "checkpoint_ticks")
        for name, usual in zip(names, rules, strict=True):
            invariant(getattr(self, name) >= 0, f"{name} is not negative")
            if getattr(self, name) == 0:
                object.__setattr__(self, name, usual)
        invariant(self.chunk_bytes + HEADER_BYTES <= self.frame_bytes_max, "a chunk fits a frame")
