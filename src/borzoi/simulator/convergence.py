"""What must hold in the end, and what must hold all the time about sizes.

After the liveness phase the replicas of the core stand at the same op with the same state, the same
canonical journal on their disks, and exactly the messages the shadow predicts.
"""

from collections.abc import Sequence
from typing import Final

import xxhash

from borzoi.consensus.effects import Leadership
from borzoi.consensus.merge import Undecided, merge
from borzoi.consensus.partition_log import PartitionLog
from borzoi.consensus.replica import Replica
from borzoi.consensus.state import JOURNAL_WRITES_MAX, NORMAL, RECOVERING, VIEW_CHANGE
from borzoi.consensus.timeouts import Timer
from borzoi.metadata import snapshot
from borzoi.model.limits import HEADER_BYTES
from borzoi.records.batch import verify, walk
from borzoi.records.message import decode_messages
from borzoi.records.validation import INDEX_ENTRY
from borzoi.simulator.auditor import Auditor, Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.node import SimulatedNode
from borzoi.simulator.shadow import Contents, ControlShadow, DataShadow
from borzoi.simulator.workload import Workload

# A replica takes no new prepares while 256 of its writes wait; repair and view changes add a few.
UNSYNCED_MAX: Final = 640
# From one durable checkpoint to the next a disk makes three writes (the superblock under way, the
# files, the superblock that names them), and this many ops can arrive during each.
WRITES_SLACK: Final = 3 * JOURNAL_WRITES_MAX + 64
# Under a name of its own: looking up a member of an enum costs as much as a call.
LEADER: Final = Leadership.LEADER
TIMER_NAMES: Final = {
    number: name for name, number in vars(Timer).items() if isinstance(number, int)
}


def replicas_of(nodes: Sequence[SimulatedNode], core: Sequence[int], group: int) -> list[Replica]:
    return [nodes[number].replicas[group] for number in core if nodes[number].is_up]


def converged(nodes: Sequence[SimulatedNode], core: Sequence[int], auditor: Auditor) -> bool:
    """All of the core up, Normal in one view, and at the end of everything committed."""
    for history in auditor.groups:
        replicas = replicas_of(nodes, core, history.group)
        if len(replicas) != len(core):
            return False
        end = len(history.checksums)
        view = max(replica.view for replica in replicas)
        for replica in replicas:
            if (
                replica.status is not NORMAL
                or replica.view != view
                or replica.wiped
                or not replica.commit_min == replica.commit_max == replica.op == end
                or replica.durable_prefix < end
            ):
                return False
        for number in core:
            durable = nodes[number].disk.volumes[history.group].newest()
            if durable is None or durable.wiped or durable.view != view:
                return False
    return True


def check_final(nodes: Sequence[SimulatedNode], core: Sequence[int], auditor: Auditor) -> None:
    for history in auditor.groups:
        group, end = history.group, len(history.checksums)
        if history.replied_op > end:
            raise Violation("no lost ack", f"group {group} op {history.replied_op} is gone")
        for number in core:
            _check_journal(nodes[number], group, history.checksums)
            _check_contents(nodes[number], group, history.shadow)
        snapshots = {nodes[number].machines[group].checkpoint(end) for number in core}
        if len(snapshots) > 1:
            raise Violation("state agreement", f"group {group}: snapshots differ at op {end}")


def _check_journal(node: SimulatedNode, group: int, checksums: list[bytes]) -> None:
    """The canonical suffix above the checkpoint lies on the disk, readable, byte for byte."""
    replica, volume = node.replicas[group], node.disk.volumes[group]
    for op in range(replica.checkpoint_op + 1, len(checksums) + 1):
        if not volume.is_synced(checksums[op - 1]):
            raise Violation("disk", f"replica {node.number} group {group} has no record of op {op}")
    newest = volume.newest()
    if newest is None or newest.view > replica.view or newest.wiped:
        raise Violation("disk", f"replica {node.number} group {group}: wrong superblock")


def _check_contents(node: SimulatedNode, group: int, shadow: ControlShadow | DataShadow) -> None:
    machine = node.machines[group]
    if isinstance(machine, DataMachine) and isinstance(shadow, DataShadow):
        if sorted(machine.partitions) != sorted(shadow.partitions):
            raise Violation("log contents", f"replica {node.number} group {group}: partitions")
        for key, log in machine.partitions.items():
            objection = _objection(log, shadow.partitions[key], shadow.messages(key))
            if objection is not None:
                raise Violation(
                    "log contents", f"replica {node.number} group {group} {key}: {objection}"
                )
    elif isinstance(machine, ControlMachine) and isinstance(shadow, ControlShadow):
        found, expected = (
            snapshot.encode(state, members=True) for state in (machine.state, shadow.state)
        )
        if found != expected:
            raise Violation("state agreement", f"replica {node.number}: metadata differs")


def _objection(log: PartitionLog, contents: Contents, payloads: list[bytes]) -> str | None:
    """What a reader of this partition would find wrong, byte for byte."""
    if (log.first_offset, log.next_offset) != (contents.start, contents.end):
        return f"offsets {log.first_offset}..{log.next_offset}"
    if log.generation != contents.generation:
        return f"generation {log.generation}"
    if {key.consumer: at for key, at in log.offsets.items()} != contents.offsets:
        return f"consumer offsets {log.offsets}"
    found: list[bytes] = []
    for segment in log.segments:
        if verify(walk(memoryview(segment.log))) is not None:
            return "a message has the wrong checksum"
        index, position = b"", 0
        for message in decode_messages(segment.log):
            if message.offset != contents.start + len(found):
                return f"message {message.offset} at {contents.start + len(found)}"
            position += HEADER_BYTES + len(message.payload)
            index += INDEX_ENTRY.pack(
                message.offset - segment.base_offset, position, message.timestamp
            )
            found.append(message.payload)
        if index != segment.index:
            return f"the index of segment {segment.base_offset}"
    return None if found == payloads else f"{len(found)} messages of {len(payloads)}"


def check_resources(nodes: Sequence[SimulatedNode], draw: Draw) -> None:
    """Nothing grows without bound: what a replica keeps is a matter of its configuration."""
    for node in nodes:
        for replica in node.replicas:
            kept = len(replica.canon)
            # What the superblock on disk does not cover yet must stay, however slow the disk is.
            window = replica.op - replica.durable_checkpoint_op
            limit = window + draw.retained_ops + 4 * draw.checkpoint_ops + WRITES_SLACK
            if kept > limit:
                raise Violation(
                    "resources", f"replica {node.number} keeps {kept} headers, at most {limit}"
                )
            if replica.op - replica.commit_max > draw.pipeline_max and replica.is_primary:
                raise Violation(
                    "resources",
                    f"replica {node.number} has {replica.op - replica.commit_max} ops in flight",
                )
            check_bounds(node, replica, draw)
            check_timers(node.number, replica)
        for volume in node.disk.volumes:
            if volume.worst > UNSYNCED_MAX:
                raise Violation(
                    "resources", f"replica {node.number} queued {volume.worst} journal writes"
                )


def check_bounds(node: SimulatedNode, replica: Replica, draw: Draw) -> None:
    """Sessions, ops in flight and requests that wait; and a node knows whether it leads."""
    pipeline = replica.pipeline
    sessions, in_flight, queued = (
        len(replica.client_table),
        len(pipeline.entries),
        len(pipeline.queue),
    )
    if sessions > draw.client_table_max:
        raise _excess(node, sessions, "sessions", draw.client_table_max)
    if in_flight > draw.pipeline_max:
        raise _excess(node, in_flight, "ops in its pipeline", draw.pipeline_max)
    if queued > draw.request_queue_max:
        raise _excess(node, queued, "requests in its queue", draw.request_queue_max)
    told = node.leadership[replica.group] is LEADER
    if (replica.leadership is LEADER) != told and not node.paused_until:
        raise Violation(
            "view discipline", f"replica {node.number} leads, or does not, and was not told"
        )


def _excess(node: SimulatedNode, count: int, what: str, limit: int) -> Violation:
    return Violation("resources", f"replica {node.number} has {count} {what}, at most {limit}")


def check_timers(number: int, replica: Replica) -> None:
    """No armed timer is dead, and every wait has a running timer that can end it."""
    timers = replica.timers
    if timers.next_deadline <= timers.now:
        raise Violation(
            "timers",
            f"replica {number} group {replica.group}: a timer due at"
            f" {timers.next_deadline} has not fired at {timers.now}",
        )
    if replica.stopped or replica.is_empty or replica.replica_count == 1 or not replica.view:
        # View 0 begins when the superblock of the genesis is written; that wait ends by itself.
        return
    wanted = [Timer.PING] if replica.elects else []
    if replica.status is RECOVERING:
        wanted.append(Timer.REQUEST_START_VIEW)
    elif replica.status is VIEW_CHANGE:
        # A replica that waited long enough votes against this view too, and repeats its vote.
        wanted.append(Timer.START_VIEW_CHANGE if replica.voting else Timer.VIEW_CHANGE_STATUS)
    elif replica.is_primary:
        # The heartbeat of the control group covers the data groups of the node.
        wanted += [Timer.COMMIT_MESSAGE] if replica.elects else []
        if replica.pipeline.entries:
            wanted += (
                [Timer.PREPARE] if replica.abdicating else [Timer.PREPARE, Timer.PRIMARY_ABDICATE]
            )
    elif replica.elects and not replica.voting:
        wanted.append(Timer.NORMAL_HEARTBEAT)
    missing = [TIMER_NAMES[timer] for timer in wanted if not timers.is_running(timer)]
    if missing:
        raise Violation(
            "timers",
            f"replica {number} group {replica.group} {replica.status.name} waits"
            f" without {', '.join(missing)}",
        )


def is_undecidable(nodes: Sequence[SimulatedNode], core: Sequence[int]) -> bool:
    """Whether standing still is right: the op a merge cannot decide was spoiled in the core.

    The fault atlas leaves a good copy of every committed op on some replica. But an op on its way
    may have had one copy, and a header that no canonical replica can read decides nothing.
    """
    for group in range(len(nodes[0].configs)):
        replicas = replicas_of(nodes, core, group)
        undecided = {replica.undecidable for replica in replicas} - {None}
        for number in core:
            # A data group that cannot decide moves on to the next view and tries again.
            undecided |= nodes[number].undecided[group]
        undecided |= {undecided_op(replica, replicas) for replica in replicas} - {None}
        spoiled = {
            record.header.op
            for number in core
            for record in nodes[number].disk.volumes[group].records
            if not record.is_good
        }
        for number in core:
            spoiled |= nodes[number].disk.volumes[group].doubted
        voices = sum(not replica.wiped for replica in replicas)
        # A replica that cannot say what it acknowledged has no voice (S5).
        if spoiled and (undecided & spoiled or voices < replicas[0].quorums.view_change):
            return True
    return False


def undecided_op(replica: Replica, core: Sequence[Replica]) -> int | None:
    """The op this candidate cannot decide with the claims of all replicas that may vote."""
    voices = {one.replica_id for one in core if not one.wiped}
    if not replica.claims or not voices <= set(replica.claims):
        return None
    merged = merge(
        [replica.claims[number] for number in sorted(replica.claims)],
        nack_quorum=replica.quorums.nack,
        pipeline_max=replica.config.pipeline_max,
    )
    return merged.op if isinstance(merged, Undecided) else None


def stuck(nodes: Sequence[SimulatedNode], core: Sequence[int], workload: Workload) -> str:
    parts = [f"acknowledged {workload.acknowledged}, quiet {workload.quiet}"]
    for number in core:
        if not nodes[number].is_up:
            parts.append(f"replica {number} is down")
        parts += [
            f"{number}/{replica.group} {replica.status.name} v{replica.view}"
            f" l{replica.log_view} {replica.commit_min}/{replica.commit_max}/{replica.op}"
            f"{' wiped' if replica.wiped else ''}"
            for replica in nodes[number].replicas
        ]
    return "; ".join(parts)


def state_digest(auditor: Auditor) -> str:
    """Of everything committed: ops, their order and their answers."""
    digest = xxhash.xxh3_64()
    for history in auditor.groups:
        for checksum, (status, payload) in zip(history.checksums, history.answers, strict=True):
            digest.update(checksum)
            digest.update(status.to_bytes(4, "little"))
            digest.update(payload)
    return digest.hexdigest()
