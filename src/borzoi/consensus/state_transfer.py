"""Pulling a peer's checkpoint when its journal no longer reaches back far enough (K2)."""

from borzoi.consensus import applying, checkpointing, following, repair
from borzoi.consensus.checkpoint import Checkpoint, decode_manifest, encode_manifest
from borzoi.consensus.effects import ReadCheckpoint, WriteCheckpoint
from borzoi.consensus.frames import EMPTY_BODY, checksum
from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import (
    HEADER_BYTES,
    UNSEALED,
    Command,
    RequestStateChunk,
    RequestStateTransfer,
    StateChunk,
    StateTransferTarget,
)
from borzoi.consensus.state import NORMAL, CheckpointWrite, ReplicaState
from borzoi.consensus.timeouts import Timer
from borzoi.consensus.transfer import STALLS_MAX, ChunkWanted, Transfer

# -- the lagging side -----------------------------------------------------------------------------


def is_too_far_behind(r: ReplicaState) -> bool:
    """The op needed next is at or below what the peers we heard of still retain."""
    return r.commit_min + 1 <= r.peer_checkpoint_op - r.config.retain_ops


def consider(r: ReplicaState, *, repair_is_stuck: bool) -> None:
    """Begin a transfer when repair cannot help; a candidate never does, no peer could offer."""
    if r.transfer is not None or not r.follows_log() or r.leads_view() or not r.others:
        return
    if r.checkpoint_write is not None and r.checkpoint_write.is_transfer:
        return
    stuck = repair_is_stuck and r.commit_min < r.commit_max
    if is_too_far_behind(r) or stuck:
        begin(r)


def begin(r: ReplicaState) -> None:
    """Each session asks the next peer in turn, across views too (K2).

    With dice a dead peer may be asked until the primary gives up waiting for our acknowledgements,
    view after view; in turn, a living one is asked after at most as many sessions as peers are
    dead. Replicas begin with different peers.
    """
    r.repair_rounds = 0
    peer = r.others[(r.replica_id + r.transfer_peers_tried) % len(r.others)]
    r.transfer_peers_tried += 1
    nonce = r.random.randrange(1 << 64).to_bytes(16, "little")
    r.transfer = Transfer(peer, nonce, r.config.chunk_bytes)
    r.timers.start(Timer.STATE_TRANSFER_STALL)
    _request_offer(r, r.transfer)


def abandon(r: ReplicaState) -> None:
    """Drop the session; the repair timer decides whether another is needed."""
    r.transfer = None
    r.timers.stop(Timer.STATE_TRANSFER_STALL)
    r.timers.ensure(Timer.REPAIR)
    following.acknowledge(r)


def on_stall_timer(r: ReplicaState) -> None:
    transfer = r.transfer
    if transfer is None:
        return
    if transfer.is_complete():
        _install_when_following(r, transfer)
        return
    transfer.stalls += 1
    if transfer.stalls >= STALLS_MAX:
        if r.follows_log():
            begin(r)
        else:
            # Outside of a view no peer is caught up, so none would offer anything.
            abandon(r)
        return
    r.timers.start(Timer.STATE_TRANSFER_STALL)
    if transfer.manifest is None:
        _request_offer(r, transfer)
    else:
        for wanted in transfer.outstanding():
            _request_chunk(r, transfer, wanted)


def _request_offer(r: ReplicaState, transfer: Transfer) -> None:
    # fmt: off
    r.send(transfer.peer, RequestStateTransfer(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_STATE_TRANSFER.value, r.replica_id, transfer.nonce, r.group,
    ))
    # fmt: on


def _request_chunk(r: ReplicaState, transfer: Transfer, wanted: ChunkWanted) -> None:
    # fmt: off
    r.send(transfer.peer, RequestStateChunk(
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.REQUEST_STATE_CHUNK.value, r.replica_id, transfer.nonce, wanted.offset, r.group,
        wanted.length, wanted.artifact,
    ))
    # fmt: on


def on_target(r: ReplicaState, header: StateTransferTarget, body: bytes) -> None:
    """An offer: refused when it is older than what this replica has or knows of."""
    transfer = r.transfer
    if transfer is None or header.nonce != transfer.nonce or transfer.manifest is not None:
        return
    manifest = decode_manifest(body) if header.available else None
    useful = header.commit_op > r.commit_min and header.commit_max >= r.commit_max
    if manifest is None or manifest.header.op != header.commit_op or not useful:
        abandon(r)
        return
    transfer.accept(manifest)
    r.timers.start(Timer.STATE_TRANSFER_STALL)
    _continue(r, transfer)


def on_chunk(r: ReplicaState, header: StateChunk, body: bytes) -> None:
    transfer = r.transfer
    if transfer is None or header.nonce != transfer.nonce or transfer.manifest is None:
        return
    if transfer.receive(header.artifact, header.offset, body):
        r.timers.start(Timer.STATE_TRANSFER_STALL)
        _continue(r, transfer)


def _continue(r: ReplicaState, transfer: Transfer) -> None:
    for wanted in transfer.next_chunks():
        _request_chunk(r, transfer, wanted)
    if transfer.is_complete():
        _install_when_following(r, transfer)


def _install_when_following(r: ReplicaState, transfer: Transfer) -> None:
    """A session outlives the view it began in: it may take longer than a view that waits for it.

    But what it brings becomes the state of a replica that has a log to go on from, and not of one
    that has just said in a claim what its log is (V9).
    """
    if not r.follows_log() or r.checkpoint_write is not None:
        r.timers.start(Timer.STATE_TRANSFER_STALL)
        return
    checkpoint = transfer.checkpoint()
    if checkpoint is None:
        abandon(r)
        return
    r.timers.stop(Timer.STATE_TRANSFER_STALL)
    token = r.token()
    r.checkpoint_write = CheckpointWrite(token, checkpoint, is_transfer=True)
    r.effects.append(WriteCheckpoint(checkpoint.manifest.header.op, checkpoint, token))


def install(r: ReplicaState, checkpoint: Checkpoint) -> None:
    """The files are durable; unless the world moved on, become their state (S1)."""
    manifest = checkpoint.manifest
    op = manifest.header.op
    if r.transfer is None:
        return
    if op <= r.commit_min:
        abandon(r)
        return
    if not r.follows_log():
        # The view ended while the files were written; they are here when the next one begins.
        r.timers.start(Timer.STATE_TRANSFER_STALL)
        return
    r.transfer = None
    known = r.canon.get(op)
    invariant(
        known is None or known.checksum == manifest.header.checksum,
        f"the checkpoint received for op {op} stands on another history",
    )
    checkpointing.restore(r, checkpoint)
    r.commit_min = r.checkpoint_op = r.installed_op = op
    r.commit_max = max(r.commit_max, op)
    r.manifest = manifest
    # It may lead from here, with a clock that is behind (T2).
    r.last_timestamp = max(r.last_timestamp, manifest.header.timestamp)
    checkpointing.remember_checksum(r)
    r.op = max(r.op, op)
    _forget_history(r, op)
    r.canon[op] = manifest.header
    above = r.canon.get(op + 1)
    if above is not None:
        repair.check_chain_to_applied(r, above)
    r.recompute_durable_prefix()
    r.persist()
    repair.begin(r)
    applying.apply_committed(r)


def _forget_history(r: ReplicaState, floor: int) -> None:
    """Below the floor the checkpoint speaks; above it, only what is canonical."""
    for op in [op for op in r.canon if op < floor]:
        del r.canon[op]
    kept = {}
    for identity, entry in r.entries.items():
        op = entry.header.op
        canonical = r.canon.get(op)
        # A3: an entry whose canonical header is still unknown may be the second copy of a commit.
        is_stale = op > r.op or (canonical is not None and canonical.checksum != identity)
        if op > floor and not is_stale:
            kept[identity] = entry
    r.entries = kept


# -- the serving side -----------------------------------------------------------------------------


def on_request_transfer(r: ReplicaState, header: RequestStateTransfer, _: bytes) -> None:
    """Only a Normal replica that is caught up offers, and only what its superblock names."""
    available = (
        r.status is NORMAL
        and r.log_is_durable()
        and r.commit_min == r.commit_max
        and r.checkpoint_op > 0
        and r.durable_checkpoint_op == r.checkpoint_op
    )
    body = encode_manifest(r.manifest) if available else b""
    if available:
        r.serving[header.replica] = (header.nonce, r.checkpoint_op, r.manifest)
    # fmt: off
    r.send(header.replica, StateTransferTarget(
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.durable_view, r.release,
        Command.STATE_TRANSFER_TARGET.value, r.replica_id, header.nonce,
        r.checkpoint_op if available else 0, r.group, int(available), int(not available),
        r.commit_max,
    ), body)
    # fmt: on


def on_request_chunk(r: ReplicaState, header: RequestStateChunk, _: bytes) -> None:
    session = r.serving.get(header.replica)
    if session is None or session[0] != header.nonce:
        return
    _, op, manifest = session
    if header.artifact >= len(manifest.entries) or header.length > r.config.chunk_bytes:
        return
    token = r.token()
    r.chunks_in_flight[token] = header
    r.effects.append(ReadCheckpoint(op, header.artifact, header.offset, header.length, token))


def on_checkpoint_read(r: ReplicaState, token: int, content: bytes | None) -> None:
    """The driver read a range for a peer; no answer if it is missing: the peer asks elsewhere."""
    asked = r.chunks_in_flight.pop(token)
    if content is None:
        return
    # fmt: off
    r.send(asked.replica, StateChunk(
        UNSEALED, checksum(content), r.cluster, HEADER_BYTES + len(content), r.durable_view,
        r.release, Command.STATE_CHUNK.value, r.replica_id, asked.nonce, asked.offset, r.group,
        asked.artifact,
    ), content)
    # fmt: on
