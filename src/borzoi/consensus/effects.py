"""The effects of a replica: the driver carries them out in order.

Nothing here acts. A replica appends to ``Replica.effects`` while it handles one input, and the
driver executes them after that input has returned; results come back as new inputs.
"""

from enum import Enum, IntEnum
from typing import Final, NamedTuple, TypeAlias

from borzoi.consensus.checkpoint import Checkpoint
from borzoi.consensus.messages import U128, Header, Prepare
from borzoi.consensus.superblock import Superblock


class Leadership(Enum):
    """What a node may tell clients about itself for one group."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"


class Refusal(IntEnum):
    """Statuses of Respond that the core gives itself; the state machine's own stay below 2**31."""

    NOT_PRIMARY = 0x8000_0001
    BUSY = 0x8000_0002
    UNKNOWN_SESSION = 0x8000_0003
    FENCED = 0x8000_0004
    ALREADY_APPLIED = 0x8000_0005
    REQUEST_MISMATCH = 0x8000_0006
    UNKNOWN_OPERATION = 0x8000_0007
    # Some replica runs a release that does not know this operation yet.
    RELEASE_TOO_OLD = 0x8000_0008


STATUS_OK: Final = 0


class Send(NamedTuple):
    """Fire and forget; ``to`` is a replica id, never the sender."""

    to: int
    header: Header
    body: bytes


class WriteJournal(NamedTuple):
    """Append one record in the order given; after its fsync call ``on_written(token)``.

    Tokens grow; ``on_written(t)`` says that every journal write up to token t is on the disk, and
    the header of each in the ring (``header_ring``), which is written after the records are synced.
    """

    header: Prepare
    body: bytes
    token: int


class WriteSuperblock(NamedTuple):
    """Write and fsync, then ``on_superblock_written(token)``; at most one is in flight."""

    superblock: Superblock
    token: int


class ReadJournal(NamedTuple):
    """Find the record by identity, then ``on_read(token, body or None)``."""

    op: int
    checksum: U128
    token: int


class TruncateJournal(NamedTuple):
    """Every record with ``op < below`` may be recycled (the superblock already covers it)."""

    below: int


class RewriteJournal(NamedTuple):
    """Copy the journal into fresh files, without the gaps the scan at start reported; fsync; swap.

    Only those: a record that went bad since must be copied as it is, trailer included, because it
    is the only witness that this replica acknowledged its op. The ring stays as it is.
    """


class WriteCheckpoint(NamedTuple):
    """Make the checkpoint durable under the name of ``op``, then ``on_checkpoint_written(token)``.

    Also used to install a transferred checkpoint. The previous checkpoint stays until
    DropCheckpoints names it: the superblock on disk may still point at it.
    """

    op: int
    checkpoint: Checkpoint
    token: int


class DropCheckpoints(NamedTuple):
    """Checkpoints with ``op < below`` are no longer named by any superblock copy."""

    below: int


class ReadCheckpoint(NamedTuple):
    """Read a range of one artifact, then ``on_checkpoint_read(token, bytes or None)``."""

    op: int
    artifact: int
    offset: int
    length: int
    token: int


class Applied(NamedTuple):
    """An op reached the state machine: for metrics, checkers and the metadata log."""

    op: int
    header: Prepare
    body: bytes
    status: int
    payload: bytes


class Respond(NamedTuple):
    """The answer to a request this node was asked; ``status`` 0, the machine's, or a Refusal."""

    client: U128
    request: int
    status: int
    payload: bytes


class FailWaiters(NamedTuple):
    """The view is lost: outcomes of accepted requests are unknown, their connections close (C5)."""

    reason: str


class RoleChanged(NamedTuple):
    leadership: Leadership
    view: int


class EnterView(NamedTuple):
    """Control group only: call ``on_enter_view(*this)`` of every data group of this node (D2).

    Also after each start, once the node's groups exist: a data group may have slept through it.
    For ``promise_ticks`` this node keeps its promise to the primary it last answered (L1).
    """

    view: int
    promise_ticks: int


class GroupCommits(NamedTuple):
    """Control group only: hand to each data group as ``on_group_commit`` (D2)."""

    view: int
    positions: tuple[tuple[int, int, int], ...]


class GroupCheckpoints(NamedTuple):
    """Control group only: a peer's checkpoints, for ``on_peer_checkpoint`` of data groups (K1)."""

    checkpoints: tuple[tuple[int, int, U128], ...]


class ClusterRelease(NamedTuple):
    """Control group only: call ``on_cluster_release(release)`` of this node's data groups.

    Emitted when it changes; a cluster of one release never sees it.
    """

    release: int


class Abdicate(NamedTuple):
    """Data group only: call ``on_abdicate()`` of this node's control group (D2)."""

    reason: str


class ReadReady(NamedTuple):
    """A linearizable read may now run against the applied state (L1)."""

    token: int


class Undecidable(NamedTuple):
    """All replicas answered and op cannot be decided: stay unavailable and tell (E4)."""

    view: int
    op: int
    reason: str


class Fatal(NamedTuple):
    """Stop the process; nothing after this may be executed."""

    reason: str


Effect: TypeAlias = (
    Send
    | WriteJournal
    | WriteSuperblock
    | ReadJournal
    | TruncateJournal
    | RewriteJournal
    | WriteCheckpoint
    | DropCheckpoints
    | ReadCheckpoint
    | Applied
    | Respond
    | FailWaiters
    | RoleChanged
    | EnterView
    | GroupCommits
    | GroupCheckpoints
    | ClusterRelease
    | Abdicate
    | ReadReady
    | Undecidable
    | Fatal
)
