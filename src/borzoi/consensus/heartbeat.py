"""Pings, the lease of the primary, linearizable reads, and comparing checkpoints (4.11, 4.12)."""

from borzoi.consensus import checkpointing, following, normal
from borzoi.consensus.effects import Fatal, GroupCheckpoints, ReadReady
from borzoi.consensus.frames import checksum
from borzoi.consensus.messages import HEADER_BYTES, U128, UNSEALED, Command, Ping, Pong
from borzoi.consensus.state import MICROSECONDS_PER_TICK, ReplicaState, Status
from borzoi.consensus.timeouts import Timer


def on_ping_timer(r: ReplicaState) -> None:
    r.timers.start(Timer.PING)
    if r.elects and not r.is_empty:
        ping(r)


def ping(r: ReplicaState) -> int:
    """Ask every peer for a sign of life; returns the stamp their answers will echo."""
    stamp = normal.monotonic_stamp(r)
    body = _checksums(r)
    # fmt: off
    r.broadcast(Ping(
        UNSEALED, checksum(body), r.cluster, HEADER_BYTES + len(body), r.durable_view, r.release,
        Command.PING.value, r.replica_id, stamp, r.wall_us, r.checkpoint_op, r.durable_view,
        _status(r),
    ), body)
    # fmt: on
    return stamp


def _status(r: ReplicaState) -> int:
    """Normal only if the view is durable and this replica does not want to leave it (N10, V1)."""
    if r.status == Status.NORMAL and (not r.log_is_durable() or r.abdicating or r.voting):
        return Status.VIEW_CHANGE.value
    return r.status.value


def _checksums(r: ReplicaState) -> bytes:
    own = [(0, op, identity) for op, identity in sorted(r.checkpoint_checksums.items())]
    data = [
        (group, op, identity) for group, (_, _, op, identity) in sorted(r.positions.items()) if op
    ]
    return checkpointing.encode_checksums(own + data)


def on_ping(r: ReplicaState, header: Ping, body: bytes) -> None:
    if r.is_empty:
        return
    compare_checkpoints(r, body)
    r.peer_checkpoint_op = max(r.peer_checkpoint_op, header.checkpoint_op)
    from_primary = header.replica == r.primary_of(header.view) and header.status == Status.NORMAL
    if from_primary and header.view > r.view:
        following.probe(r, header.view)
    normal_here = r.status == Status.NORMAL and r.log_is_durable()
    if from_primary and header.view == r.view and normal_here:
        if header.ping_monotonic > r.heard_monotonic:
            r.heard_monotonic = header.ping_monotonic
            following.hear_primary(r)
        following.promise(r)
    # fmt: off
    r.send(header.replica, Pong(
        UNSEALED, checksum(b""), r.cluster, HEADER_BYTES, r.durable_view, r.release,
        Command.PONG.value, r.replica_id, header.ping_monotonic, r.wall_us, r.checkpoint_op,
        r.durable_view, _status(r),
    ))
    # fmt: on


def on_pong(r: ReplicaState, header: Pong, body: bytes) -> None:
    """Contact is as old as the ping that is answered, whenever the answer arrives."""
    compare_checkpoints(r, body)
    r.peer_checkpoint_op = max(r.peer_checkpoint_op, header.checkpoint_op)
    # Half of the round trip is how old the peer's reading is, to a good guess (4.11).
    elapsed_us = max(0, r.monotonic_us - header.ping_monotonic)
    r.clock_offsets_us[header.replica] = header.pong_wall + elapsed_us // 2 - r.wall_us
    if not r.is_primary or header.view != r.view or header.status != Status.NORMAL:
        return
    # Who is content with this view has no vote against it any more (V4).
    r.votes &= ~(1 << header.replica)
    if header.ping_monotonic > r.contact_us[header.replica]:
        r.contact_us[header.replica] = header.ping_monotonic
    grant_reads(r)


def compare_checkpoints(r: ReplicaState, body: bytes) -> None:
    """4.8: the same op must give the same checkpoint everywhere; who notices stops."""
    if not body:
        return
    theirs = checkpointing.decode_checksums(body)
    for group, op, identity in theirs:
        if group == r.group:
            compare_checkpoint(r, op, identity)
    data = tuple(entry for entry in theirs if entry[0] != r.group)
    if data:
        r.effects.append(GroupCheckpoints(data))


def compare_checkpoint(r: ReplicaState, op: int, identity: U128) -> None:
    ours = r.checkpoint_checksums.get(op)
    if ours is not None and op and ours != identity:
        r.stopped = True
        r.effects.append(Fatal(f"checkpoint {op} of group {r.group} differs from a peer's"))


def contacts_since(r: ReplicaState, since_us: int) -> int:
    """Replicas, this one included, that answered something sent at or after that time."""
    return 1 + sum(r.contact_us[other] >= since_us for other in r.others)


def is_current(r: ReplicaState) -> bool:
    """A primary that has applied everything it inherited and committed."""
    return r.is_primary and normal.accepts_requests(r) and r.commit_min == r.commit_max


def may_read(r: ReplicaState, monotonic_us: int) -> bool:
    """Level lease of 4.12: no other primary can exist yet, and everything committed is applied.

    Only the control group holds leases: contact is between nodes (D2).
    """
    if not r.elects or r.abdicating or not is_current(r):
        return False
    if r.bugs.lease_never_lapses:
        return True
    since = monotonic_us - r.config.timeouts.lease * MICROSECONDS_PER_TICK
    return contacts_since(r, since) >= r.quorums.replication


def on_linearizable_read(r: ReplicaState, token: int) -> bool:
    """Broadcast a ping after the read arrived and wait for a quorum; false when not primary."""
    if not r.is_primary or not r.elects:
        return False
    r.reads.append((token, ping(r)))
    grant_reads(r)
    return True


def grant_reads(r: ReplicaState) -> None:
    """Oldest first: a later read's quorum implies the earlier one's."""
    while r.reads:
        token, stamp = r.reads[0]
        if contacts_since(r, stamp) < r.quorums.replication:
            return
        if not is_current(r):
            return
        r.reads.popleft()
        r.effects.append(ReadReady(token))
