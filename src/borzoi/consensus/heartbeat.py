"""Pings: the lease of the primary, linearizable reads, clocks, releases, checkpoints compared.

The rules are T2, L1 and K1.
"""

from typing import Final

from borzoi.consensus import checkpointing, following, normal, view_change
from borzoi.consensus.clock import ClockSample, outside_us
from borzoi.consensus.config import BASE_RELEASE
from borzoi.consensus.effects import ClusterRelease, Fatal, GroupCheckpoints, ReadReady
from borzoi.consensus.frames import EMPTY_BODY, checksum
from borzoi.consensus.messages import HEADER_BYTES, U128, UNSEALED, Command, Ping, Pong
from borzoi.consensus.state import MICROSECONDS_PER_TICK, NORMAL, ReplicaState, Status
from borzoi.consensus.timeouts import Timer

_CLOCK_STEP_US: Final = 1_000_000
_new: Final = tuple.__new__
# Under names of their own: the value of an enum's member costs two calls.
_PING: Final = Command.PING.value
_PONG: Final = Command.PONG.value
_VIEW_CHANGE: Final = Status.VIEW_CHANGE.value


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
        _PING, r.replica_id, stamp, r.wall_us, r.checkpoint_op, r.durable_view, _status(r),
    ), body)
    # fmt: on
    return stamp


def _status(r: ReplicaState) -> int:
    """Normal only if the view is durable and this replica does not want to leave it (N10, V1)."""
    if r.status is NORMAL and (not r.log_is_durable() or r.abdicating or r.voting):
        return _VIEW_CHANGE
    return int(r.status)


def _checksums(r: ReplicaState) -> bytes:
    own = [(0, op, identity) for op, identity in sorted(r.checkpoint_checksums.items())]
    data = [
        (group, op, identity) for group, (_, _, op, identity) in sorted(r.positions.items()) if op
    ]
    return checkpointing.encode_checksums(own + data)


def on_ping(r: ReplicaState, header: Ping, body: bytes) -> None:
    compare_checkpoints(r, body)
    learn_release(r, header.replica, header.release)
    r.peer_checkpoint_op = max(r.peer_checkpoint_op, header.checkpoint_op)
    from_primary = header.replica == r.primary_of(header.view) and header.status == NORMAL
    if from_primary and header.view > r.view:
        following.probe(r, header.view)
    normal_here = r.status is NORMAL and r.log_is_durable()
    if from_primary and header.view == r.view and normal_here:
        if header.ping_monotonic > r.heard_monotonic:
            r.heard_monotonic = header.ping_monotonic
            following.hear_primary(r)
        following.promise(r)
    # fmt: off
    r.send(header.replica, _new(Pong, (
        UNSEALED, EMPTY_BODY, r.cluster, HEADER_BYTES, r.durable_view, r.release, _PONG,
        r.replica_id, header.ping_monotonic, r.wall_us, r.checkpoint_op, r.durable_view, _status(r),
    )))
    # fmt: on


def on_pong(r: ReplicaState, header: Pong, body: bytes) -> None:
    """Contact is as old as the ping that is answered, whenever the answer arrives."""
    if header.ping_monotonic > r.ping_monotonic:
        # A former life of this process asked; its clock means nothing now.
        return
    compare_checkpoints(r, body)
    learn_release(r, header.replica, header.release)
    r.peer_checkpoint_op = max(r.peer_checkpoint_op, header.checkpoint_op)
    _sample_clock(r, header)
    if leave_when_clock_is_off(r):
        return
    if not r.is_primary or header.view != r.view or header.status != NORMAL:
        return
    # A replica that answers in this view has withdrawn its vote against it (V4).
    r.votes &= ~(1 << header.replica)
    if normal.has_forgotten(r, header.replica):
        _prove_quorum(r)
    elif header.ping_monotonic > r.contact_us[header.replica]:
        r.contact_us[header.replica] = header.ping_monotonic
    grant_reads(r)


def _prove_quorum(r: ReplicaState) -> None:
    """Prepare an op: without the replica that forgot, too few may be alive to commit it.

    Then the primary leaves (N10), and in the next view everyone counts.
    """
    if r.pipeline.entries:
        return
    if contacts_since(r, _lease_began(r, r.monotonic_us)) < r.quorums.replication:
        r.noop_due = True
        normal.drain_queue(r)


def _sample_clock(r: ReplicaState, header: Pong) -> None:
    """T2: the peer looked at its clock some time between our ping and now."""
    elapsed_us = max(0, r.monotonic_us - header.ping_monotonic)
    low = header.pong_wall - r.monotonic_us
    r.clock_samples[header.replica] = ClockSample(low, low + elapsed_us, r.timers.now)
    r.clock_offsets_us[header.replica] = header.pong_wall + elapsed_us // 2 - r.wall_us


def clock_error_us(r: ReplicaState) -> int:
    """How far outside of what the clocks of the cluster agree on ours is; 0: inside, or unknown."""
    own = r.clock_base_us = r.wall_us - r.monotonic_us
    return outside_us(own, r.clock_samples, r.timers.now, r.config.timeouts.clock_sync)


def leave_when_clock_is_off(r: ReplicaState) -> bool:
    """A primary whose clock the others do not share stamps nothing more: it steps down (T2)."""
    if not r.elects or not r.is_primary or clock_error_us(r) == 0:
        return False
    view_change.step_down(r)
    return True


def clock_has_moved(r: ReplicaState) -> bool:
    """Our wall clock was set since it was last compared; cheap enough for every request."""
    return abs(r.wall_us - r.monotonic_us - r.clock_base_us) > _CLOCK_STEP_US


def learn_release(r: ReplicaState, replica: int, release: int) -> None:
    """Operations that all replicas support may be used; a silent replica may have any release."""
    if r.peer_releases[replica] == release:
        return
    r.peer_releases[replica] = release
    known = max(BASE_RELEASE, min(r.peer_releases))
    if known != r.cluster_release:
        r.cluster_release = known
        r.effects.append(ClusterRelease(known))


def compare_checkpoints(r: ReplicaState, body: bytes) -> None:
    """K1: the same op gives the same checkpoint everywhere; stop where it does not."""
    if not body:
        return
    data: list[tuple[int, int, U128]] = []
    for entry in checkpointing.decode_checksums(body):
        if entry[0] == r.group:
            compare_checkpoint(r, entry[1], entry[2])
        else:
            data.append(entry)
    if data:
        r.effects.append(GroupCheckpoints(tuple(data)))


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
    """Level lease of L1: no other primary can exist yet, and everything committed is applied.

    Only the control group holds leases: contact is between nodes (D2).
    """
    if not r.elects or r.abdicating or not is_current(r):
        return False
    return contacts_since(r, _lease_began(r, monotonic_us)) >= r.quorums.replication


def _lease_began(r: ReplicaState, monotonic_us: int) -> int:
    return monotonic_us - r.config.timeouts.lease * MICROSECONDS_PER_TICK


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
