"""One simulated machine: the production replicas of all groups, on a faulty disk and clock.

A node executes the effects of its replicas in order and feeds results back as new inputs, never
from inside an effect. It can be killed between any two effects, stopped for a while, and started
again from what its disk kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from borzoi.consensus import effects as fx
from borzoi.consensus.config import Config
from borzoi.consensus.frames import decode_frame, encode_frame
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import Header
from borzoi.consensus.replica import Replica
from borzoi.simulator import restoring
from borzoi.simulator.auditor import Auditor, Violation
from borzoi.simulator.clocks import NodeClock
from borzoi.simulator.disk import Disk
from borzoi.simulator.events import TICK_US, EventQueue
from borzoi.simulator.machines import ControlMachine, DataMachine, Divergence
from borzoi.simulator.network import Network
from borzoi.simulator.trace import Trace, describe, event_line

# A process that was stopped reads its sockets first and then makes up for a few ticks only (6.7).
CATCH_UP_TICKS_MAX: Final = 5
SLEEP_MAX: Final = 1 << 30


class Call(NamedTuple):
    """A client's request to a node."""

    group: int
    client: bytes
    epoch: int
    request: int
    operation: int
    payload: bytes


class Answer(NamedTuple):
    """What a node tells a client; `status` None means the connection was closed."""

    group: int
    client: bytes
    request: int
    status: int | None
    payload: bytes


class ReadCall(NamedTuple):
    group: int
    level: str
    number: int
    floor: int


class ReadAnswer(NamedTuple):
    group: int
    level: str
    number: int
    floor: int
    granted: bool


@dataclass(slots=True)
class Surroundings:
    """What all nodes of a run share."""

    events: EventQueue
    network: Network
    auditor: Auditor
    trace: Trace
    full: bool
    seed: int
    stopped: Callable[[Any, str], None]
    crashed_inside: Callable[[Any], None]


class Node:
    """Implements what the nemesis may do to a machine, and carries out what replicas decide."""

    def __init__(
        self, number: int, configs: list[Config], disk: Disk, around: Surroundings
    ) -> None:
        self.number = number
        self.clock = NodeClock()
        self.disk = disk
        self.configs = configs
        self.replicas: list[Replica] = []
        self.control = ControlMachine()
        self.machines: list[ControlMachine | DataMachine] = []
        self.life = 0
        self.paused_until = 0
        self.rejoining = False
        # The cluster has no genesis yet: an empty disk is a new one, not a lost one.
        self.unfounded = False
        self.fuse = -1
        self.ticks = 0
        self.leadership = [fx.Leadership.NONE for _ in configs]
        self._around = around
        self._waiters: dict[tuple[int, bytes, int], list[int]] = {}
        self._reads: dict[int, tuple[int, ReadCall]] = {}
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._inputs: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._busy = False
        # Ticks not yet handed to the replicas, and how many may be saved up.
        self._owed = 0
        self._sleep = 1
        self._positions = [(-1, -1, -1) for _ in configs]
        self._handlers: dict[type[Any], Callable[[int, Any], None]] = {
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
            fx.Reply: self._reply,
            fx.FailWaiters: self._fail_waiters,
            fx.Role: self._role,
            fx.EnterView: self._enter_view,
            fx.GroupCommits: self._group_commits,
            fx.GroupCheckpoints: self._group_checkpoints,
            fx.Abdicate: self._abdicate,
            fx.ReadReady: self._read_ready,
            fx.Undecidable: self._undecidable,
            fx.Fatal: self._fatal,
        }

    # -- being a process ---------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return bool(self.replicas)

    @property
    def is_rejoining(self) -> bool:
        """Since its disk was lost or damaged, until everything it may have vouched for is back."""
        if (
            self.rejoining
            and self.is_up
            and not any(one.wiped for one in self.replicas)
            and not any(volume.is_damaged() for volume in self.disk.volumes)
        ):
            self.rejoining = False
        return self.rejoining

    def start(self) -> None:
        around = self._around
        self.life += 1
        self.fuse = -1
        self.paused_until = 0
        self.disk.slowness = max(1, self.disk.slowness)
        around.network.restarted(self.number, wiped=self.rejoining and not self._formatted())
        around.auditor.counters["restarts"] += 1
        incarnation = Random(f"{around.seed}/incarnation/{self.number}/{self.life}").randbytes(16)
        self.control = ControlMachine()
        machines: list[ControlMachine | DataMachine] = [self.control]
        replicas: list[Replica] = []
        for group, config in enumerate(self.configs):
            if group:
                machines.append(DataMachine(lambda: replicas[0].commit_min))
            restored, wiped = restoring.restored(
                self.disk.volumes[group],
                config,
                incarnation,
                full=around.full,
                new=self.unfounded,
            )
            self.rejoining = self.rejoining or wiped
            dice = Random(f"{around.seed}/timeouts/{self.number}/{group}/{self.life}")
            replicas.append(Replica(config, machines[group], dice, restored))
            # From here on a restore is a state transfer, not a start.
            machines[group].restores = 0
        self.machines, self.replicas = machines, replicas
        self.leadership = [fx.Leadership.NONE for _ in self.configs]
        self._positions = [(-1, -1, -1) for _ in self.configs]
        self._owed, self._sleep = 0, 1
        for group in range(len(replicas)):
            self._say(group, "starts")
            self._drain(group)
        self.rejoining = self.rejoining or any(one.wiped for one in self.replicas)
        self._settle()

    def _formatted(self) -> bool:
        return all(volume.newest() is not None for volume in self.disk.volumes)

    def crash(self) -> None:
        """Loses memory and whatever was not synced."""
        if self.is_up:
            self._say(0, "crashes")
        self.count_transfers()
        self.replicas = []
        self.machines = []
        self._waiters.clear()
        self._reads.clear()
        self._inbox.clear()
        self._inputs.clear()
        self.fuse = -1
        self.disk.crash()

    def count_transfers(self) -> None:
        for machine in self.machines:
            self._around.auditor.counters["transfers"] += machine.restores
            machine.restores = 0

    def wipe(self) -> None:
        self.disk.wipe()
        self.rejoining = True

    def pause(self, ticks: int) -> None:
        """SIGSTOP: frames and completions wait in the kernel until the process goes on."""
        if not self.is_up or self.paused_until:
            return
        self.paused_until = self._around.events.now + ticks
        self._around.events.after(ticks, self._resume, self.life)

    def _resume(self, life: int) -> None:
        if life != self.life or not self.is_up or not self.paused_until:
            return
        self.paused_until = 0
        inbox, self._inbox = self._inbox, []
        for action, arguments in inbox:
            if life == self.life and self.is_up:
                action(*arguments)
        for _ in range(CATCH_UP_TICKS_MAX):
            if life == self.life and self.is_up:
                self._owed += 1
                self._catch_up()
                self._settle()

    def arm_crash(self, effects: int) -> None:
        self.fuse = effects

    def stop(self, reason: str) -> None:
        """Fail-stop, as after a disk error: the process ends, its supervisor starts it again."""
        self.crash()
        self._around.stopped(self, reason)

    # -- inputs ------------------------------------------------------------------------------------

    def _set_clocks(self) -> None:
        now = self._around.events.now
        monotonic, wall = now * TICK_US, self.clock.wall_us(now)
        for replica in self.replicas:
            replica.monotonic_us = monotonic
            replica.wall_us = wall

    def tick(self) -> None:
        """One tick of virtual time; the node's own clock decides how many ticks that is.

        Ticks in which no timer is due are saved up and handed over together, before the next
        timer or the next input, whichever comes first.
        """
        due = self.clock.ticks_due()
        if not self.replicas or self.paused_until:
            return
        self._owed += due
        if self._owed >= self._sleep:
            self._catch_up()
            if self._inputs:
                self._settle()

    def _catch_up(self) -> None:
        """Brings the replicas' clocks to now; timers that are due fire."""
        owed, self._owed = self._owed, 0
        self.ticks += owed * len(self.replicas)
        self._set_clocks()
        for group, replica in enumerate(self.replicas):
            try:
                replica.tick(owed)
            except InvariantError as error:
                raise self._broken(group, error) from error
            if replica.effects:
                self._drain(group)
        self._rest()

    def _rest(self) -> None:
        """How many ticks may be saved up: until the first timer of any group."""
        sleep = SLEEP_MAX
        for replica in self.replicas:
            timers = replica.timers
            left = timers.next_deadline - timers.now
            if left < sleep:
                sleep = left
        self._sleep = sleep

    def receive(self, source: int, frame: Any) -> None:
        if not self.replicas:
            return
        if self.paused_until:
            self._inbox.append((self.receive, (source, frame)))
            return
        if type(frame) is Call:
            self._called(source, frame)
        elif type(frame) is ReadCall:
            self._asked(source, frame)
        else:
            header, body = frame if type(frame) is tuple else self._decode(frame)
            group = getattr(header, "namespace", 0)
            if self._around.trace.enabled:
                self._say(group, f"<- {source} {describe(header)}")
            self._input(group, self.replicas[group].on_frame, (header, body))

    def _decode(self, frame: bytes) -> tuple[Header, bytes]:
        config = self.configs[0]
        return decode_frame(frame, config.cluster, config.replica_count)

    def completed(self, group: int, what: str, token: int) -> None:
        """The disk finished a write."""
        if self.paused_until:
            self._inbox.append((self.completed, (group, what, token)))
            return
        replica = self.replicas[group]
        if self._around.trace.enabled:
            self._say(group, f"synced {what} {token}")
        if what == "journal":
            self._input(group, replica.on_written, (token,))
        elif what == "superblock":
            self._input(group, replica.on_superblock_written, (token,))
        else:
            self._input(group, replica.on_checkpoint_written, (token,))

    def _input(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Runs one input to completion, its effects, and every input that follows from those."""
        self._inputs.append((group, method, arguments))
        if not self._busy:
            self._settle()

    def _settle(self) -> None:
        self._busy = True
        if self._owed and self.replicas:
            self._catch_up()
        inputs = self._inputs
        try:
            while inputs:
                group, method, arguments = inputs.popleft()
                try:
                    method(*arguments)
                except (InvariantError, Divergence) as error:
                    raise self._broken(group, error) from error
                replicas = self.replicas
                if replicas and replicas[group].effects:
                    self._drain(group)
                if group and self.replicas:
                    self._tell_position(group)
        finally:
            self._busy = False
        self._rest()

    def _drain(self, group: int) -> None:
        if not self.replicas:
            return
        replica = self.replicas[group]
        if not replica.effects:
            return
        handlers = self._handlers
        for effect in replica.take_effects():
            if self.fuse >= 0:
                if self.fuse == 0:
                    self._say(group, f"dies before {type(effect).__name__}")
                    self.crash()
                    self._around.crashed_inside(self)
                    return
                self.fuse -= 1
            handlers[type(effect)](group, effect)

    def _tell_position(self, group: int) -> None:
        """The control group's Commit carries where every data group stands."""
        replica = self.replicas[group]
        position = (replica.view, replica.commit_max, replica.checkpoint_op)
        if position != self._positions[group]:
            self._positions[group] = position
            self._inputs.append(
                (0, self.replicas[0].on_position, (group, *position, replica.checkpoint_checksum))
            )

    def _broken(self, group: int, error: Exception) -> Violation:
        return Violation(
            "invariant", f"replica {self.number} group {group}: {type(error).__name__}: {error}"
        )

    def _say(self, group: int, event: str) -> None:
        trace = self._around.trace
        if not trace.enabled:
            return
        now = self._around.events.now
        if self.replicas:
            faulty = sum(not record.is_good for record in self.disk.volumes[group].records)
            trace.line(event_line(now, self.replicas[group], faulty, event))
        else:
            trace.line(f"{now:>7} {self.number}/{group} {event}")

    # -- clients -----------------------------------------------------------------------------------

    def _called(self, source: int, call: Call) -> None:
        waiters = self._waiters.setdefault((call.group, call.client, call.request), [])
        if source not in waiters:
            waiters.append(source)
        replica = self.replicas[call.group]
        if self._around.trace.enabled:
            self._say(call.group, f"<- client {source} {call.operation} request {call.request}")
        self._inputs.append((call.group, self._submit, (replica, call)))
        if not self._busy:
            self._settle()

    def _submit(self, replica: Replica, call: Call) -> None:
        replica.on_request(
            call.client, call.request, call.operation, call.payload, epoch=call.epoch
        )

    def _asked(self, source: int, call: ReadCall) -> None:
        """Reads of a data group lean on the control group: same node, same view, one lease (D2)."""
        if call.level == "prefix":
            self._answer_read(source, call)
        elif call.level == "lease":
            granted = self.replicas[0].may_read(self._around.events.now * TICK_US)
            self._finish_read(source, call, granted=granted)
        else:
            self._reads[call.number] = (source, call)
            self._input(0, self._read_linearizably, (call,))

    def _read_linearizably(self, call: ReadCall) -> None:
        if not self.replicas[0].on_linearizable_read(call.number):
            source, _ = self._reads.pop(call.number)
            self._finish_read(source, call, granted=False)

    def _finish_read(self, source: int, call: ReadCall, *, granted: bool) -> None:
        control, replica = self.replicas[0], self.replicas[call.group]
        if granted and (call.group == 0 or replica.serves_reads(control.view)):
            self._answer_read(source, call)
        else:
            self._around.network.send(self.number, source, ReadAnswer(*call, granted=False))

    def _answer_read(self, source: int, call: ReadCall) -> None:
        applied = self.replicas[call.group].commit_min
        self._around.auditor.read(call.group, call.level, applied, call.floor, self.number)
        self._around.network.send(self.number, source, ReadAnswer(*call, granted=True))

    # -- effects -----------------------------------------------------------------------------------

    def _send(self, group: int, effect: fx.Send) -> None:
        around = self._around
        header = effect.header
        around.auditor.sent(self.number, self.replicas[group], self.disk.volumes[group], header)
        if around.trace.enabled:
            self._say(group, f"-> {effect.to} {describe(header)}")
        frame = encode_frame(header, effect.body) if around.full else (header, effect.body)
        around.network.send(self.number, effect.to, frame)

    def _write_journal(self, group: int, effect: fx.WriteJournal) -> None:
        image = restoring.record_image(effect.header, effect.body) if self._around.full else None
        self.disk.write_journal(group, effect.header, effect.body, effect.token, image)

    def _write_superblock(self, group: int, effect: fx.WriteSuperblock) -> None:
        self.disk.write_superblock(group, effect.superblock, effect.token)

    def _read_journal(self, group: int, effect: fx.ReadJournal) -> None:
        self._around.auditor.counters["journal reads"] += 1
        self.disk.read_later(group, self._journal_read, (group, effect))

    def _journal_read(self, what: tuple[int, fx.ReadJournal]) -> None:
        group, effect = what
        if self.paused_until:
            self._inbox.append((self._journal_read, (what,)))
            return
        body = self.disk.read_journal(group, effect.checksum)
        self._input(group, self.replicas[group].on_read, (effect.token, body))

    def _truncate_journal(self, group: int, effect: fx.TruncateJournal) -> None:
        volume = self.disk.volumes[group]
        durable = volume.newest()
        if durable is None or durable.checkpoint_op + 1 < effect.below:
            raise Violation(
                "durability",
                f"replica {self.number} group {group} recycles the journal below {effect.below},"
                f" checkpoint is {durable.checkpoint_op if durable else None}",
            )
        volume.truncate(effect.below)

    def _rewrite_journal(self, group: int, effect: fx.RewriteJournal) -> None:
        self.disk.volumes[group].rewrite()

    def _write_checkpoint(self, group: int, effect: fx.WriteCheckpoint) -> None:
        around = self._around
        around.auditor.checkpoint(self.number, group, effect.op, effect.checkpoint)
        around.auditor.counters["checkpoints"] += 1
        self.disk.write_checkpoint(group, effect.op, effect.checkpoint, effect.token)

    def _drop_checkpoints(self, group: int, effect: fx.DropCheckpoints) -> None:
        checkpoints = self.disk.volumes[group].checkpoints
        for op in [op for op in checkpoints if op < effect.below]:
            del checkpoints[op]

    def _read_checkpoint(self, group: int, effect: fx.ReadCheckpoint) -> None:
        self.disk.read_later(group, self._checkpoint_read, (group, effect))

    def _checkpoint_read(self, what: tuple[int, fx.ReadCheckpoint]) -> None:
        group, effect = what
        if self.paused_until:
            self._inbox.append((self._checkpoint_read, (what,)))
            return
        checkpoint = self.disk.volumes[group].checkpoints.get(effect.op)
        content = None
        if checkpoint is not None and effect.artifact < len(checkpoint.artifacts):
            whole = checkpoint.artifacts[effect.artifact].content
            content = whole[effect.offset : effect.offset + effect.length]
        self._input(group, self.replicas[group].on_checkpoint_read, (effect.token, content))

    def _applied(self, group: int, effect: fx.Applied) -> None:
        self._around.auditor.applied(self.number, group, effect)
        if self._around.trace.enabled:
            self._say(group, f"applies {effect.op} operation {effect.header.operation}")
        if group == 0:
            for number in range(1, len(self.replicas)):
                self._inputs.append((number, self.replicas[number].on_machine_ready, ()))

    def _reply(self, group: int, effect: fx.Reply) -> None:
        if effect.status == fx.Refusal.UNKNOWN_SESSION:
            applied = self.replicas[group].commit_min
            sessions_max = self.configs[group].client_table_max
            self._around.auditor.forgotten(group, effect.client, sessions_max, applied)
        waiters = self._waiters.pop((group, effect.client, effect.request), ())
        answer = Answer(group, effect.client, effect.request, effect.status, effect.payload)
        for endpoint in waiters:
            self._around.network.send(self.number, endpoint, answer)

    def _fail_waiters(self, group: int, effect: fx.FailWaiters) -> None:
        for key in [key for key in self._waiters if key[0] == group]:
            for endpoint in self._waiters.pop(key):
                self._around.network.send(
                    self.number, endpoint, Answer(group, key[1], key[2], None, b"")
                )
        if group == 0:
            reads, self._reads = self._reads, {}
            for source, call in reads.values():
                self._finish_read(source, call, granted=False)

    def _role(self, group: int, effect: fx.Role) -> None:
        self.leadership[group] = effect.leadership
        if effect.leadership is fx.Leadership.LEADER:
            self._around.auditor.started_view(self.number, group, effect.view)
        if self._around.trace.enabled:
            self._say(group, f"is {effect.leadership.value} of view {effect.view}")

    def _enter_view(self, group: int, effect: fx.EnterView) -> None:
        for number in range(1, len(self.replicas)):
            replica = self.replicas[number]
            self._inputs.append(
                (number, replica.on_enter_view, (effect.view, effect.promise_ticks))
            )

    def _group_commits(self, group: int, effect: fx.GroupCommits) -> None:
        for number, commit, checkpoint_op in effect.positions:
            if 0 < number < len(self.replicas):
                replica = self.replicas[number]
                self._inputs.append(
                    (number, replica.on_group_commit, (effect.view, commit, checkpoint_op))
                )

    def _group_checkpoints(self, group: int, effect: fx.GroupCheckpoints) -> None:
        for number, op, identity in effect.checkpoints:
            if 0 < number < len(self.replicas):
                replica = self.replicas[number]
                self._inputs.append((number, replica.on_peer_checkpoint, (op, identity)))

    def _abdicate(self, group: int, effect: fx.Abdicate) -> None:
        self._around.auditor.counters["abdications"] += 1
        self._inputs.append((0, self.replicas[0].on_abdicate, ()))

    def _read_ready(self, group: int, effect: fx.ReadReady) -> None:
        asked = self._reads.pop(effect.token, None)
        if asked is not None:
            self._finish_read(*asked, granted=True)

    def _undecidable(self, group: int, effect: fx.Undecidable) -> None:
        self._around.auditor.counters["undecidable merges"] += 1
        if self._around.trace.enabled:
            self._say(group, f"cannot decide op {effect.op}: {effect.reason}")

    def _fatal(self, group: int, effect: fx.Fatal) -> None:
        raise Violation("fatal", f"replica {self.number} group {group}: {effect.reason}")
