"""The state of one replica of one group, and the few acts every phase needs.

The phases (normal, view_change, recovery, repair, ...) are modules of functions over a
``ReplicaState``; ``replica.Replica`` is the door through which a driver reaches them.
"""

from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from borzoi.consensus.checkpoint import Checkpoint, Manifest
from borzoi.consensus.client_table import ClientTable
from borzoi.consensus.clock import ClockSample
from borzoi.consensus.config import BASE_RELEASE, Config, Randomness
from borzoi.consensus.effects import (
    Effect,
    Leadership,
    RoleChanged,
    Send,
    WriteJournal,
    WriteSuperblock,
)
from borzoi.consensus.frames import root
from borzoi.consensus.invariants import invariant
from borzoi.consensus.machine import StateMachine
from borzoi.consensus.merge import Claim
from borzoi.consensus.messages import U128, ZERO, DoViewChange, Header, Prepare, RequestStateChunk
from borzoi.consensus.pipeline import CommitPipeline, InFlight
from borzoi.consensus.quorum import quorums
from borzoi.consensus.superblock import Superblock
from borzoi.consensus.timeouts import NEVER, Timers
from borzoi.consensus.transfer import Transfer

# What a named tuple's own constructor ends with; effects are made for every frame.
_new: Final = tuple.__new__
MICROSECONDS_PER_TICK: Final = 10_000
# Bodies of applied ops kept in memory so that a slow peer's repair does not read the disk.
BODIES_CACHED: Final = 64
FUTURE_MAX: Final = 32
# Journal writes that may wait for one slow fsync before a replica stops taking prepares.
JOURNAL_WRITES_MAX: Final = 256


class Status(IntEnum):
    NORMAL = 0
    VIEW_CHANGE = 1
    RECOVERING = 2


class Held(IntEnum):
    """What the journal of this replica knows about one prepare."""

    WRITING = 0
    DURABLE = 1
    FAULTY = 2


# Under names of their own: looking up a member of an enum costs as much as a call.
NORMAL: Final = Status.NORMAL
VIEW_CHANGE: Final = Status.VIEW_CHANGE
RECOVERING: Final = Status.RECOVERING
WRITING: Final = Held.WRITING.value
DURABLE: Final = Held.DURABLE.value
FAULTY: Final = Held.FAULTY.value


class JournalEntry(msgspec.Struct, eq=False):
    """One prepare in the journal; ``body`` only while it is worth its memory."""

    header: Prepare
    held: int
    body: bytes | None
    reading: bool = False


class SuperblockWrite(NamedTuple):
    """The values of a write in flight: these become durable, not those in memory then (S2)."""

    token: int
    view: int
    log_view: int
    checkpoint_op: int
    wiped: bool
    suffix: tuple[Prepare, ...]


class CheckpointWrite(NamedTuple):
    token: int
    checkpoint: Checkpoint
    is_transfer: bool


class ReplicaState:
    """Plain fields; the invariants of I1 are in ``check``."""

    __slots__ = (
        "abdicating",
        "acked_prefix",
        "announced_view",
        "announces",
        "barrier",
        "canon",
        "checkpoint_checksums",
        "checkpoint_due_us",
        "checkpoint_op",
        "checkpoint_write",
        "chunks_in_flight",
        "claims",
        "client_table",
        "clock_base_us",
        "clock_offsets_us",
        "clock_samples",
        "cluster",
        "cluster_release",
        "commit_max",
        "commit_min",
        "config",
        "contact_us",
        "covered_op",
        "do_view_change",
        "durable_checkpoint_op",
        "durable_log_view",
        "durable_prefix",
        "durable_suffix",
        "durable_view",
        "durable_wiped",
        "effects",
        "elects",
        "empties",
        "entries",
        "forgetful",
        "future",
        "generation",
        "genesis_incarnations",
        "group",
        "heard_monotonic",
        "incarnation",
        "inherited_op",
        "installed_op",
        "is_damaged",
        "is_empty",
        "journal_writes",
        "last_timestamp",
        "leadership",
        "log_floor",
        "log_view",
        "lost",
        "machine",
        "manifest",
        "monotonic_us",
        "newer_operations",
        "next_token",
        "node_view",
        "noop_due",
        "op",
        "others",
        "peer_checkpoint_op",
        "peer_releases",
        "ping_monotonic",
        "pipeline",
        "positions",
        "probe_view",
        "promise_until",
        "quorums",
        "random",
        "reads",
        "reads_in_flight",
        "release",
        "repair_lowest",
        "repair_rounds",
        "repairing",
        "replica_count",
        "replica_id",
        "reply_due",
        "resigned",
        "serving",
        "status",
        "stopped",
        "superblock_due",
        "superblock_write",
        "timers",
        "transfer",
        "transfer_peers_tried",
        "uncovered_bytes",
        "undecidable",
        "view",
        "votes",
        "voting",
        "wall_us",
        "wiped",
    )

    def __init__(self, config: Config, machine: StateMachine, random: Randomness) -> None:
        self.config = config
        self.machine = machine
        self.random = random
        self.cluster = config.cluster
        self.group = config.group
        self.release = config.release
        self.newer_operations = dict(config.newer_operations)
        self.replica_id = config.replica_id
        self.replica_count = config.replica_count
        self.others = tuple(r for r in range(config.replica_count) if r != config.replica_id)
        self.quorums = quorums(config.replica_count)
        # D2: only the control group detects failures and elects; data groups follow.
        self.elects = config.group == 0
        self.effects: list[Effect] = []
        self.timers = Timers(config.timeouts, random, config.checkpoint_ticks)
        self.client_table = ClientTable(config.client_table_max)
        self.pipeline = CommitPipeline(config.pipeline_max, config.request_queue_max)
        self.monotonic_us = 0
        self.wall_us = 0
        self.next_token = 1
        self.incarnation: U128 = ZERO
        self.stopped = False
        self._reset_log(config)
        self._reset_roles()

    def _reset_log(self, config: Config) -> None:
        first = root(config.cluster, config.group)
        self.status: Status = RECOVERING
        self.view = 0
        self.log_view = 0
        self.op = 0
        self.commit_max = 0
        self.commit_min = 0
        self.checkpoint_op = 0
        self.manifest = Manifest(first, ())
        self.checkpoint_checksums: dict[int, U128] = {}
        self.canon: dict[int, Prepare] = {0: first}
        self.entries: dict[U128, JournalEntry] = {}
        self.lost: dict[U128, int] = {}
        self.future: dict[int, tuple[Prepare, bytes]] = {}
        self.log_floor = 0
        self.last_timestamp = 0
        self.durable_prefix = 0
        self.durable_view = 0
        self.durable_log_view = 0
        self.durable_checkpoint_op = 0
        self.durable_wiped = False
        self.durable_suffix: tuple[Prepare, ...] = (first,)
        self.generation = 0
        self.superblock_due = False
        self.superblock_write: SuperblockWrite | None = None
        self.journal_writes: deque[tuple[int, JournalEntry]] = deque()
        self.checkpoint_write: CheckpointWrite | None = None
        # The op of the newest checkpoint taken or installed, the journal bytes applied since, and
        # the timestamp of the log at which the next one is due (K1, K3).
        self.covered_op = 0
        self.uncovered_bytes = 0
        self.checkpoint_due_us = NEVER
        self.installed_op = 0

    def _reset_roles(self) -> None:
        self.leadership = Leadership.NONE
        self.wiped = False
        self.is_empty = False
        self.is_damaged = False
        self.empties = 0
        self.genesis_incarnations: dict[int, U128] = {}
        # Replicas that lost their disk in a view this one led, and that view.
        self.forgetful: dict[int, int] = {}
        self.barrier: int | None = None
        self.votes = 0
        self.voting = False
        self.claims: dict[int, Claim] = {}
        self.do_view_change: tuple[DoViewChange, bytes] | None = None
        self.announces = False
        # This view was led in a former life of this process; it must not be led again (V6).
        self.resigned = False
        self.announced_view = -1
        self.undecidable: int | None = None
        self.promise_until = 0
        self.acked_prefix = -1
        self.inherited_op = 0
        self.noop_due = False
        self.abdicating = False
        self.reply_due: dict[int, InFlight] = {}
        self.heard_monotonic = -1
        self.ping_monotonic = 0
        self.contact_us: list[int] = [-1] * self.replica_count
        # How far each peer's wall clock is ahead of ours, by its last Pong; None when unknown.
        self.clock_offsets_us: list[int | None] = [None] * self.replica_count
        self.clock_samples: list[ClockSample | None] = [None] * self.replica_count
        # Our wall clock minus our monotonic clock when it was last compared with the others'.
        self.clock_base_us = 0
        # The release in each peer's pings, 0 before the first one, and the lowest of all.
        self.peer_releases = [0] * self.replica_count
        self.peer_releases[self.replica_id] = self.release
        self.cluster_release = self.release if self.replica_count == 1 else BASE_RELEASE
        self.reads: deque[tuple[int, int]] = deque()
        self.positions: dict[int, tuple[int, int, int, U128]] = {}
        self.probe_view = 0
        # Data groups: the newest view this node's control group has entered (D2).
        self.node_view = 0
        self.peer_checkpoint_op = 0
        self.repairing: dict[int, int] = {}
        self.repair_rounds = 0
        self.repair_lowest = 0
        self.reads_in_flight: dict[int, tuple[Prepare, int | None]] = {}
        self.transfer: Transfer | None = None
        self.transfer_peers_tried = 0
        self.chunks_in_flight: dict[int, RequestStateChunk] = {}
        self.serving: dict[int, tuple[U128, int, Manifest]] = {}

    # -- questions --------------------------------------------------------------------------------

    def primary_of(self, view: int) -> int:
        return view % self.replica_count

    def leads_view(self) -> bool:
        """Whether this replica is, or is to become, the primary of its view."""
        return self.view % self.replica_count == self.replica_id

    @property
    def is_primary(self) -> bool:
        """N1, without the clause on requests; `log_is_durable` without the call."""
        view = self.view
        return (
            self.status is NORMAL
            and view % self.replica_count == self.replica_id
            and self.durable_view == view
            and self.durable_log_view == view
        )

    def view_is_durable(self) -> bool:
        return self.durable_view == self.view

    def log_is_durable(self) -> bool:
        """The superblock on disk holds this view and the log decided for it (S1)."""
        return self.durable_view == self.view and self.durable_log_view == self.view

    def follows_log(self) -> bool:
        """Status Normal, or a wiped replica that has adopted a log and is catching up."""
        return self.status is NORMAL or (
            self.status is RECOVERING and not self.is_empty and self.barrier is not None
        )

    def suffix(self) -> tuple[Prepare, ...]:
        """Canonical headers from commit to op, ascending; shorter where one is unknown."""
        headers: list[Prepare] = []
        for op in range(self.op, min(self.commit_max, self.op) - 1, -1):
            header = self.canon.get(op)
            if header is None:
                break
            headers.append(header)
        invariant(bool(headers), "the head of the log has a header")
        headers.reverse()
        return tuple(headers)

    # -- acts -------------------------------------------------------------------------------------

    def token(self) -> int:
        token = self.next_token
        self.next_token = token + 1
        return token

    def send(self, to: int, header: Header, body: bytes = b"") -> None:
        self.effects.append(_new(Send, (to, header, body)))

    def broadcast(self, header: Header, body: bytes = b"") -> None:
        effects = self.effects
        for to in self.others:
            effects.append(_new(Send, (to, header, body)))

    def take_role(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.effects.append(RoleChanged(leadership, self.view))

    def persist(self) -> None:
        """Write the superblock now, or as soon as the write in flight is done."""
        self.superblock_due = True
        self.flush_superblock()

    def flush_superblock(self) -> None:
        if not self.superblock_due or self.superblock_write is not None:
            return
        self.superblock_due = False
        self.generation += 1
        token = self.token()
        suffix = self.suffix()
        self.superblock_write = SuperblockWrite(
            token, self.view, self.log_view, self.checkpoint_op, self.wiped, suffix
        )
        written = Superblock(
            cluster=self.cluster,
            replica_id=self.replica_id,
            replica_count=self.replica_count,
            pipeline_max=self.config.pipeline_max,
            data_groups=self.config.data_groups,
            group=self.group,
            generation=self.generation,
            view=self.view,
            log_view=self.log_view,
            commit=min(self.commit_max, self.op),
            checkpoint_op=self.checkpoint_op,
            checkpoint_checksum=self.checkpoint_checksums.get(self.checkpoint_op, ZERO),
            wiped=self.wiped,
            suffix=suffix,
        )
        self.effects.append(WriteSuperblock(written, token))

    def journal(self, header: Prepare, body: bytes) -> JournalEntry:
        """Hand a prepare to the journal; it counts as durable only after its fsync."""
        entry = JournalEntry(header, WRITING, body)
        self.entries[header.checksum] = entry
        if header.timestamp > self.last_timestamp:
            self.last_timestamp = header.timestamp
        token = self.next_token
        self.next_token = token + 1
        self.journal_writes.append((token, entry))
        self.effects.append(_new(WriteJournal, (header, body, token)))
        return entry

    def advance_durable_prefix(self) -> bool:
        """Move over every canonical op whose body is fsynced here; true when it moved."""
        canon, entries = self.canon, self.entries
        op = start = self.durable_prefix
        while True:
            header = canon.get(op + 1)
            if header is None:
                break
            entry = entries.get(header.checksum)
            if entry is None or entry.held != DURABLE:
                break
            op += 1
        self.durable_prefix = op
        return op > start

    def recompute_durable_prefix(self) -> None:
        """After the canonical log changed: begin again at the checkpoint the superblock names."""
        self.durable_prefix = self.durable_checkpoint_op
        self.advance_durable_prefix()

    def journal_is_behind(self) -> bool:
        """The disk stalls: take nothing new, so that what waits for it stays bounded."""
        return len(self.journal_writes) >= JOURNAL_WRITES_MAX

    def check(self) -> None:
        """The invariants of I1 that cost nothing; every input ends with them."""
        commit_min = self.commit_min
        if self.checkpoint_op > commit_min or commit_min > self.commit_max:
            invariant(False, "checkpoint_op <= commit_min <= commit_max")
        if commit_min > self.op:
            invariant(False, "commit_min <= op")
        if self.log_view != self.view:
            invariant(self.log_view < self.view, "log_view <= view")
            invariant(self.status is not NORMAL, "a Normal replica has log_view == view")
