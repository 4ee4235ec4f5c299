"""What must hold in the end, and what must hold all the time about sizes.

After the liveness phase the replicas of the core stand at the same op with the same state, the same
canonical journal on their disks, and exactly the messages the shadow predicts.
"""

from collections.abc import Sequence
from typing import Final

import xxhash

from borzoi.consensus.replica import Replica
from borzoi.consensus.state import Status
from borzoi.simulator.auditor import Auditor, Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.node import Node
from borzoi.simulator.shadow import ControlShadow, DataShadow
from borzoi.simulator.workload import Workload

# A replica takes no new prepares while 256 of its writes wait; repair and view changes add a few.
UNSYNCED_MAX: Final = 640
WRITES_SLACK: Final = 320


def replicas_of(nodes: Sequence[Node], core: Sequence[int], group: int) -> list[Replica]:
    return [nodes[number].replicas[group] for number in core if nodes[number].is_up]


def converged(nodes: Sequence[Node], core: Sequence[int], auditor: Auditor) -> bool:
    """All of the core up, Normal in one view, and at the end of everything committed."""
    for history in auditor.groups:
        replicas = replicas_of(nodes, core, history.group)
        if len(replicas) != len(core):
            return False
        end = len(history.checksums)
        view = max(replica.view for replica in replicas)
        for replica in replicas:
            if (
                replica.status is not Status.NORMAL
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


def check_final(nodes: Sequence[Node], core: Sequence[int], auditor: Auditor) -> None:
    for history in auditor.groups:
        group, end = history.group, len(history.checksums)
        if history.replied_op > end:
            raise Violation("no lost ack", f"group {group} op {history.replied_op} is gone")
        for number in core:
            _check_journal(nodes[number], group, history.checksums)
            _check_contents(nodes[number], group, history.shadow)
        snapshots = {number: nodes[number].machines[group].snapshot() for number in core}
        if len(set(snapshots.values())) > 1:
            raise Violation("state agreement", f"group {group}: snapshots differ at op {end}")


def _check_journal(node: Node, group: int, checksums: list[bytes]) -> None:
    """The canonical suffix above the checkpoint lies on the disk, readable, byte for byte."""
    replica, volume = node.replicas[group], node.disk.volumes[group]
    for op in range(replica.checkpoint_op + 1, len(checksums) + 1):
        record = volume.found.get(checksums[op - 1])
        if record is None:
            raise Violation("disk", f"replica {node.number} group {group} has no record of op {op}")
    newest = volume.newest()
    if newest is None or newest.view > replica.view or newest.wiped:
        raise Violation("disk", f"replica {node.number} group {group}: wrong superblock")


def _check_contents(node: Node, group: int, shadow: ControlShadow | DataShadow) -> None:
    machine = node.machines[group]
    if isinstance(machine, DataMachine) and isinstance(shadow, DataShadow):
        found = {
            key: (one.first_offset, one.messages, dict(sorted(one.offsets.items())))
            for key, one in sorted(machine.partitions.items())
        }
        expected = shadow.contents()
        if found != expected:
            keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
            raise Violation(
                "log contents", f"replica {node.number} group {group}: partitions {keys} differ"
            )
    elif isinstance(machine, ControlMachine) and isinstance(shadow, ControlShadow):
        names = {one.name: number for number, one in machine.streams.items()}
        if names != shadow.streams:
            raise Violation("state agreement", f"replica {node.number}: streams {names} differ")


def check_resources(nodes: Sequence[Node], draw: Draw) -> None:
    """Nothing grows without bound: what a replica keeps is a matter of its configuration."""
    for node in nodes:
        for replica in node.replicas:
            kept = len(replica.canon)
            window = replica.op - replica.checkpoint_op
            limit = window + draw.retained_ops + 4 * draw.checkpoint_ops + WRITES_SLACK
            if kept > limit:
                raise Violation(
                    "resources", f"replica {node.number} keeps {kept} headers, at most {limit}"
                )
            if replica.is_primary and replica.op - replica.commit_max > draw.pipeline_max:
                raise Violation(
                    "resources",
                    f"replica {node.number} has {replica.op - replica.commit_max} ops in flight",
                )
        for volume in node.disk.volumes:
            if volume.worst > UNSYNCED_MAX:
                raise Violation(
                    "resources", f"replica {node.number} queued {volume.worst} journal writes"
                )


def is_undecidable(nodes: Sequence[Node], core: Sequence[int]) -> bool:
    """Whether standing still is right: the op a merge cannot decide was spoiled in the core.

    The fault atlas leaves a good copy of every committed op on some replica. But an op on its way
    may have had one copy, and a header that nobody canonical can read any more decides nothing.
    """
    for group in range(len(nodes[0].configs)):
        replicas = replicas_of(nodes, core, group)
        undecided = {replica.undecidable for replica in replicas} - {None}
        spoiled = {
            record.header.op
            for number in core
            for record in nodes[number].disk.volumes[group].records
            if not record.is_good
        }
        voices = sum(not replica.wiped for replica in replicas)
        # A replica that cannot say what it acknowledged has no voice (S5).
        if spoiled and (undecided & spoiled or voices < replicas[0].quorums.view_change):
            return True
    return False


def stuck(nodes: Sequence[Node], core: Sequence[int], workload: Workload) -> str:
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
