"""Checkpoints of this replica: taking, making durable, forgetting what they cover (K1, K3).

::

    bytes   field           one group's position in the body of Commit, 24 bytes
    0..8    group           u64
    8..16   commit          u64
    16..24  checkpoint_op   u64

    bytes   field           one group's checkpoint in the body of Ping and Pong, 32 bytes
    0..8    group           u64
    8..16   checkpoint_op   u64
    16..32  checksum        u128 of its manifest
"""

from struct import Struct
from typing import Any, Final

from borzoi.consensus.checkpoint import (
    Artifact,
    ArtifactKind,
    Checkpoint,
    manifest_checksum,
    manifest_of,
)
from borzoi.consensus.config import NEVER_TICKS
from borzoi.consensus.effects import DropCheckpoints, TruncateJournal, WriteCheckpoint
from borzoi.consensus.messages import U128, Prepare
from borzoi.consensus.state import MICROSECONDS_PER_TICK, CheckpointWrite, ReplicaState
from borzoi.consensus.timeouts import Timer

_POSITION: Final = Struct("<QQQ")
_CHECKSUM: Final = Struct("<QQ16s")
CHECKSUMS_KEPT: Final = 4


def encode_positions(positions: list[tuple[int, int, int]]) -> bytes:
    return b"".join([_POSITION.pack(*position) for position in positions])


def decode_positions(body: bytes) -> tuple[tuple[int, int, int], ...]:
    return _decoded(_POSITION, body)


def encode_checksums(checksums: list[tuple[int, int, U128]]) -> bytes:
    return b"".join([_CHECKSUM.pack(*entry) for entry in checksums])


def decode_checksums(body: bytes) -> tuple[tuple[int, int, U128], ...]:
    return _decoded(_CHECKSUM, body)


def _decoded(entry: Struct, body: bytes) -> tuple[Any, ...]:
    """Whole entries only; the frame checksum covers a damaged tail."""
    return tuple(entry.iter_unpack(body[: len(body) - len(body) % entry.size]))


def take(r: ReplicaState, header: Prepare) -> None:
    """Snapshot the state as it stands after ``header``; one at a time, others are skipped.

    When one is due depends on the log alone (ops, bytes, timestamps since the one before), so that
    replicas stop at the same ops and can compare what they wrote.
    """
    if r.checkpoint_write is not None:
        return
    begin_interval(r, header)
    artifacts = (
        Artifact(ArtifactKind.CLIENT_TABLE.value, header.op, r.client_table.encode()),
        *r.machine.checkpoint(header.op),
    )
    checkpoint = Checkpoint(manifest_of(header, artifacts), artifacts)
    token = r.token()
    r.checkpoint_write = CheckpointWrite(token, checkpoint, is_transfer=False)
    r.effects.append(WriteCheckpoint(header.op, checkpoint, token))


def begin_interval(r: ReplicaState, header: Prepare) -> None:
    """Everything up to ``header`` is covered; by time the next is due in the next slot of a grid.

    A grid of log time, not a distance from the one before: replicas whose checkpoints fell apart
    meet again.
    """
    r.covered_op = header.op
    r.uncovered_bytes = 0
    if r.config.checkpoint_ticks == NEVER_TICKS:
        return
    r.timers.start(Timer.CHECKPOINT)
    if header.op > 0:
        slot_us = r.config.checkpoint_ticks * MICROSECONDS_PER_TICK
        r.checkpoint_due_us = (header.timestamp // slot_us + 1) * slot_us


def on_timer(r: ReplicaState) -> None:
    """K3: the log fell silent with something uncovered, so no timestamp will say it is time."""
    r.timers.start(Timer.CHECKPOINT)
    header = r.canon.get(r.commit_min)
    if header is not None and r.commit_min > r.covered_op and r.transfer is None:
        take(r, header)


def adopt_own(r: ReplicaState, checkpoint: Checkpoint) -> None:
    """The files are durable: the next superblock names them."""
    r.manifest = checkpoint.manifest
    r.checkpoint_op = checkpoint.manifest.header.op
    remember_checksum(r)
    r.persist()


def remember_checksum(r: ReplicaState) -> None:
    r.checkpoint_checksums[r.checkpoint_op] = manifest_checksum(r.manifest)
    while len(r.checkpoint_checksums) > CHECKSUMS_KEPT:
        del r.checkpoint_checksums[min(r.checkpoint_checksums)]


def restore(r: ReplicaState, checkpoint: Checkpoint) -> None:
    """Client table and state machine become those of the checkpoint."""
    op = checkpoint.manifest.header.op
    begin_interval(r, checkpoint.manifest.header)
    machine: list[Artifact] = []
    for artifact in checkpoint.artifacts:
        if artifact.kind == ArtifactKind.CLIENT_TABLE:
            r.client_table.restore(artifact.content)
        else:
            machine.append(artifact)
    r.machine.restore(op, tuple(machine))


def forget_covered(r: ReplicaState, previous_op: int) -> None:
    """The superblock names a checkpoint: what only older ones needed may go (S1).

    ``previous_op`` is the checkpoint of the generation before, which the other pair of superblock
    slots still names.
    """
    r.effects.append(DropCheckpoints(min(previous_op, r.durable_checkpoint_op)))
    floor = min(previous_op, r.durable_checkpoint_op - r.config.retain_ops)
    if floor <= r.log_floor:
        return
    r.log_floor = floor
    for op in [op for op in r.canon if op < floor]:
        del r.canon[op]
    for identity in [c for c, entry in r.entries.items() if entry.header.op < floor]:
        del r.entries[identity]
    r.effects.append(TruncateJournal(floor))
