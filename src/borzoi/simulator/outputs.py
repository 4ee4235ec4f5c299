"""Carries out what the replicas of one node decide, effect by effect.

Results come back as new inputs, queued behind what is being done, never from inside an effect.
"""

from collections.abc import Callable
from typing import Any, Protocol

from borzoi.consensus import effects as fx
from borzoi.consensus.config import Config
from borzoi.consensus.frames import encode_frame
from borzoi.consensus.messages import Prepare
from borzoi.simulator import restoring
from borzoi.simulator.auditor import VIEW_BOUND, Violation
from borzoi.simulator.disk import Disk
from borzoi.simulator.service import RunContext, Service, ServiceHost
from borzoi.simulator.trace import describe


class Process(ServiceHost, Protocol):
    """The node as its outputs see it."""

    disk: Disk
    leadership: list[fx.Leadership]
    undecided: list[set[int]]

    def later(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Queues an input behind the present one."""
        ...

    def held(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
        """Whether the process is stopped; then the action waits until it goes on."""
        ...

    def say(self, group: int, event: str) -> None: ...


class Outputs:
    """One handler for each kind of effect."""

    def __init__(self, process: Process, around: RunContext, service: Service) -> None:
        self._process = process
        self._around = around
        self._service = service
        # Kept in attributes because every frame needs them.
        self._full = around.full
        self._trace = around.trace
        self._auditor = around.auditor
        self._network = around.network
        self.handlers: dict[type[Any], Callable[[int, Any], None]] = {
            fx.Send: self._send,
            fx.WriteJournal: self._write_journal,
            fx.WriteSuperblock: self._write_superblock,
            fx.ReadJournal: self._read_journal,
            fx.TruncateJournal: self._truncate_journal,
            fx.RewriteJournal: self._rewrite_journal,
            fx.WriteCheckpoint: self._write_checkpoint,
            fx.DropCheckpoints: self._drop_checkpoints,
            fx.ReadCheckpoint: self._read_checkpoint,
            fx.Applied: self._applied,
            fx.Respond: service.reply,
            fx.FailWaiters: self._fail_waiters,
            fx.RoleChanged: self._role,
            fx.EnterView: self._enter_view,
            fx.GroupCommits: self._group_commits,
            fx.GroupCheckpoints: self._group_checkpoints,
            fx.ClusterRelease: self._cluster_release,
            fx.Abdicate: self._abdicate,
            fx.ReadReady: self._read_ready,
            fx.Undecidable: self._undecidable,
            fx.Fatal: self._fatal,
        }

    # -- the network -------------------------------------------------------------------------------

    def _send(self, group: int, effect: fx.Send) -> None:
        process = self._process
        to, header, body = effect
        if type(header) in VIEW_BOUND:
            self._auditor.sent(
                process.number, process.replicas[group], process.disk.volumes[group], header
            )
        if self._trace.enabled:
            process.say(group, f"-> {to} {describe(header)}")
        frame = encode_frame(header, body) if self._full else (header, body)
        self._network.send(process.number, to, frame)

    # -- the disk ----------------------------------------------------------------------------------

    def _write_journal(self, group: int, effect: fx.WriteJournal) -> None:
        process = self._process
        header, body, token = effect
        config = process.configs[group]
        if config.newer_operations:
            check_release(config, header)
        image = restoring.record_image(header, body) if self._full else None
        process.disk.write_journal(group, header, body, token, image)

    def _write_superblock(self, group: int, effect: fx.WriteSuperblock) -> None:
        self._process.disk.write_superblock(group, effect.superblock, effect.token)

    def _read_journal(self, group: int, effect: fx.ReadJournal) -> None:
        self._around.auditor.counters["journal reads"] += 1
        self._process.disk.read_later(group, self._journal_read, (group, effect))

    def _journal_read(self, what: tuple[int, fx.ReadJournal]) -> None:
        group, effect = what
        process = self._process
        if process.held(self._journal_read, (what,)):
            return
        body = process.disk.read_journal(group, effect.checksum)
        process.input(group, process.replicas[group].on_read, (effect.token, body))

    def _truncate_journal(self, group: int, effect: fx.TruncateJournal) -> None:
        volume = self._process.disk.volumes[group]
        durable = volume.newest()
        if durable is None or durable.checkpoint_op + 1 < effect.below:
            raise Violation(
                "durability",
                f"replica {self._process.number} group {group} recycles the journal below"
                f" {effect.below}, checkpoint is {durable.checkpoint_op if durable else None}",
            )
        volume.truncate(effect.below)

    def _rewrite_journal(self, group: int, effect: fx.RewriteJournal) -> None:
        self._process.disk.volumes[group].rewrite()

    def _write_checkpoint(self, group: int, effect: fx.WriteCheckpoint) -> None:
        auditor, process = self._around.auditor, self._process
        auditor.checkpoint(process.number, group, effect.op, effect.checkpoint)
        auditor.counters["checkpoints"] += 1
        process.disk.write_checkpoint(group, effect.op, effect.checkpoint, effect.token)

    def _drop_checkpoints(self, group: int, effect: fx.DropCheckpoints) -> None:
        self._process.disk.volumes[group].drop_checkpoints(effect.below)

    def _read_checkpoint(self, group: int, effect: fx.ReadCheckpoint) -> None:
        self._process.disk.read_later(group, self._checkpoint_read, (group, effect))

    def _checkpoint_read(self, what: tuple[int, fx.ReadCheckpoint]) -> None:
        group, effect = what
        process = self._process
        if process.held(self._checkpoint_read, (what,)):
            return
        content = process.disk.volumes[group].read_checkpoint(effect.op, effect.artifact)
        if content is not None:
            content = content[effect.offset : effect.offset + effect.length]
        process.input(group, process.replicas[group].on_checkpoint_read, (effect.token, content))

    # -- clients -----------------------------------------------------------------------------------

    def _applied(self, group: int, effect: fx.Applied) -> None:
        process = self._process
        self._around.auditor.applied(process.number, group, effect)
        if self._around.trace.enabled:
            process.say(group, f"applies {effect.op} operation {effect.header.operation}")
        if group == 0:
            for number in range(1, len(process.replicas)):
                process.later(number, process.replicas[number].on_machine_ready, ())

    def _fail_waiters(self, group: int, effect: fx.FailWaiters) -> None:
        self._service.fail_waiters(group)

    def _read_ready(self, group: int, effect: fx.ReadReady) -> None:
        self._service.read_ready(effect.token)

    # -- between the groups of the node ------------------------------------------------------------

    def _role(self, group: int, effect: fx.RoleChanged) -> None:
        process = self._process
        process.leadership[group] = effect.leadership
        if effect.leadership is fx.Leadership.LEADER:
            self._around.auditor.started_view(process.number, group, effect.view)
        if self._around.trace.enabled:
            process.say(group, f"is {effect.leadership.value} of view {effect.view}")

    def _enter_view(self, group: int, effect: fx.EnterView) -> None:
        process = self._process
        for number in range(1, len(process.replicas)):
            replica = process.replicas[number]
            process.later(number, replica.on_enter_view, (effect.view, effect.promise_ticks))

    def _group_commits(self, group: int, effect: fx.GroupCommits) -> None:
        process = self._process
        for number, commit, checkpoint_op in effect.positions:
            if 0 < number < len(process.replicas):
                replica = process.replicas[number]
                process.later(number, replica.on_group_commit, (effect.view, commit, checkpoint_op))

    def _group_checkpoints(self, group: int, effect: fx.GroupCheckpoints) -> None:
        process = self._process
        for number, op, identity in effect.checkpoints:
            if 0 < number < len(process.replicas):
                process.later(number, process.replicas[number].on_peer_checkpoint, (op, identity))

    def _cluster_release(self, group: int, effect: fx.ClusterRelease) -> None:
        process = self._process
        for number in range(1, len(process.replicas)):
            process.later(number, process.replicas[number].on_cluster_release, (effect.release,))

    def _abdicate(self, group: int, effect: fx.Abdicate) -> None:
        self._around.auditor.counters["abdications"] += 1
        self._process.later(0, self._process.replicas[0].on_abdicate, ())

    # -- what ends or stalls a replica -------------------------------------------------------------

    def _undecidable(self, group: int, effect: fx.Undecidable) -> None:
        self._around.auditor.counters["undecidable merges"] += 1
        self._process.undecided[group].add(effect.op)
        if self._around.trace.enabled:
            self._process.say(group, f"cannot decide op {effect.op}: {effect.reason}")

    def _fatal(self, group: int, effect: fx.Fatal) -> None:
        raise Violation("fatal", f"replica {self._process.number} group {group}: {effect.reason}")


def check_release(config: Config, header: Prepare) -> None:
    """A replica of an older release would not know what to do with this op."""
    for operation, release in config.newer_operations:
        if header.operation == operation and config.release < release:
            raise Violation(
                "release",
                f"replica {config.replica_id} of release {config.release} is given operation"
                f" {operation} of release {release}",
            )
