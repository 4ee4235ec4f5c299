"""One simulated machine: the production replicas of all groups, on a faulty disk and clock.

A node executes the effects of its replicas in order and feeds results back as new inputs, never
from inside an effect. It can be killed between any two effects, stopped for a while, and started
again from what its disk kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from borzoi.consensus import effects as fx
from borzoi.consensus.config import Config
from borzoi.consensus.frames import LAYOUTS, FrameRefused, decode_frame
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import Header, Reply
from borzoi.consensus.replica import Replica
from borzoi.simulator import restoring
from borzoi.simulator.auditor import Violation
from borzoi.simulator.clocks import EPOCH_US, RATE_UNIT, NodeClock
from borzoi.simulator.disk import Disk
from borzoi.simulator.events import TICK_US
from borzoi.simulator.machines import ControlMachine, DataMachine, Machine
from borzoi.simulator.network import Corrupted
from borzoi.simulator.outputs import Outputs, Surroundings
from borzoi.simulator.service import Call, ReadCall, Service
from borzoi.simulator.strangers import Foreign
from borzoi.simulator.trace import describe, event_line

# A process that was stopped reads its sockets first and then makes up for a few ticks only (6.7).
CATCH_UP_TICKS_MAX: Final = 5
NEVER: Final = 1 << 60
BACKLOG_MAX: Final = 256
NEWER_RELEASE: Final = 2
# Frames without a group in their header are about the node; its control group speaks for it.
OF_THE_NODE: Final = frozenset(
    layout.header for layout in LAYOUTS.values() if "namespace" not in layout.header._fields
)


class Node:
    """Implements what the nemesis may do to a machine, and carries out what replicas decide."""

    __slots__ = (
        "_backlog", "_busy", "_deadline", "_events", "_former_ticks", "_handlers", "_inbox",
        "_inputs", "_owed", "_paced", "_positions", "_seen", "_trace", "around", "clock", "configs",
        "disk", "fuse", "leadership", "life", "machines", "number", "pace", "paused_until",
        "rejoining", "replicas", "service", "undecided", "unfounded", "wake_at",
    )  # fmt: skip

    def __init__(
        self, number: int, configs: list[Config], disk: Disk, around: Surroundings
    ) -> None:
        self.number = number
        self.clock = NodeClock()
        self.disk = disk
        self.configs = configs
        self.replicas: list[Replica] = []
        self.machines: list[Machine] = []
        self.life = 0
        self.paused_until = 0
        self.rejoining = False
        # The cluster has no genesis yet: an empty disk is a new one, not a lost one.
        self.unfounded = False
        self.fuse = -1
        self._former_ticks = 0
        self.leadership = [fx.Leadership.NONE for _ in configs]
        # Ops that a merge could not decide since the node was healed, by group.
        self.undecided: list[set[int]] = [set() for _ in configs]
        self.around = around
        # Looked at for every frame, hence at hand.
        self._events = around.events
        self._trace = around.trace
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        # Frames a slow processor has no time for yet; `pace` is how many it takes in a tick.
        self.pace = 0
        self._paced = 0
        self._backlog: deque[tuple[int, Any]] = deque()
        self._inputs: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._busy = False
        # Ticks not yet handed to the replicas, and the tick of their clocks with the first timer.
        self._owed = 0
        self._deadline = NEVER
        # Up to when virtual time is accounted for, and when this node has to be called next.
        self._seen = 0
        self.wake_at = 0
        self._positions = [(-1, -1, -1) for _ in configs]
        self.service = Service(
            self, around.events, around.network, around.auditor, full=around.full
        )
        self._handlers = Outputs(self, around, self.service).handlers

    # -- being a process ---------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return bool(self.replicas)

    @property
    def ticks(self) -> int:
        """Ticks handed to replicas in all lives of this node; each replica counts."""
        present = self.replicas[0].timers.now * len(self.replicas) if self.replicas else 0
        return self._former_ticks + present

    @property
    def is_rejoining(self) -> bool:
        """Since its disk was lost or damaged, until everything it may have vouched for is back."""
        if (
            self.rejoining
            and self.is_up
            and not any(one.wiped or one.durable_wiped for one in self.replicas)
            and not any(volume.is_damaged() for volume in self.disk.volumes)
        ):
            self.rejoining = False
        return self.rejoining

    def start(self) -> None:
        around = self.around
        self.life += 1
        self.fuse = -1
        self.paused_until = 0
        self.disk.slowness = max(1, self.disk.slowness)
        self._replace_damaged()
        around.network.restarted(self.number, wiped=self.rejoining and not self.is_formatted)
        around.auditor.counters["restarts"] += 1
        incarnation = Random(f"{around.seed}/incarnation/{self.number}/{self.life}").randbytes(16)
        machines: list[Machine] = [ControlMachine()]
        replicas: list[Replica] = []
        ids = Random(f"{around.seed}/ids/{self.number}/{self.life}")
        for group, config in enumerate(self.configs):
            if group:
                machines.append(
                    DataMachine(
                        control_commit=lambda: replicas[0].commit_min,
                        new_ids=lambda count: ids.randbytes(16 * count),
                        segment_bytes=around.segment_bytes,
                        bugs=config.bugs,
                    )
                )
            restored, wiped = restoring.restored(
                self.disk.volumes[group],
                config,
                incarnation,
                full=around.full,
                new=self.unfounded,
            )
            if group:
                restored = replace(restored, node_view=replicas[0].durable_view)
            self.rejoining = self.rejoining or wiped
            dice = Random(f"{around.seed}/timeouts/{self.number}/{group}/{self.life}")
            replicas.append(Replica(config, machines[group], dice, restored))
            # From here on a restore is a state transfer, not a start.
            machines[group].restores = 0
        self.machines, self.replicas = machines, replicas
        self.leadership = [fx.Leadership.NONE for _ in self.configs]
        self._positions = [(-1, -1, -1) for _ in self.configs]
        self._account()
        self._owed = 0
        for group, replica in enumerate(replicas):
            self.say(group, "starts")
            self._drain(replica)
        self.rejoining = self.rejoining or any(one.wiped for one in self.replicas)
        self._settle()

    @property
    def is_formatted(self) -> bool:
        return all(volume.newest() is not None for volume in self.disk.volumes)

    def _replace_damaged(self) -> None:
        """A checkpoint that is not what its manifest says is refused; the operator wipes (4.9)."""
        for group, volume in enumerate(self.disk.volumes):
            if not restoring.checkpoint_is_whole(volume, verify=self.around.full):
                self.say(group, "refuses its checkpoint and starts as a replaced disk")
                self.disk.counts["checkpoint refused at a start"] += 1
                volume.reset()
                self.rejoining = True

    def crash(self) -> None:
        """Loses memory and whatever was not synced."""
        if self.is_up:
            self.say(0, "crashes")
        self.count_transfers()
        self._former_ticks = self.ticks
        self.replicas = []
        self.machines = []
        self.service.clear()
        self._backlog.clear()
        self._inbox.clear()
        self._inputs.clear()
        self.fuse = -1
        self.disk.crash()

    def count_transfers(self) -> None:
        for machine in self.machines:
            self.around.auditor.counters["transfers"] += machine.restores
            machine.restores = 0

    def wipe(self) -> None:
        self.disk.wipe()
        self.around.auditor.wiped(self.number)
        self.rejoining = True

    def pause(self, ticks: int) -> None:
        """SIGSTOP: frames and completions wait in the kernel until the process goes on."""
        if not self.is_up or self.paused_until:
            return
        self._account()
        self.paused_until = self.around.events.now + ticks
        self.around.events.after(ticks, self._resume, self.life)

    def _resume(self, life: int) -> None:
        if life != self.life or not self.is_up or not self.paused_until:
            return
        self.paused_until = 0
        # What passed meanwhile is gone, but for a few ticks; what was saved up before is still due.
        saved = self._owed
        self._account()
        self._owed = saved
        inbox, self._inbox = self._inbox, []
        for action, arguments in inbox:
            if life == self.life and self.is_up:
                action(*arguments)
        for _ in range(CATCH_UP_TICKS_MAX):
            if life == self.life and self.is_up:
                self._owed += 1
                self._settle()

    def arm_crash(self, effects: int) -> None:
        self.fuse = effects

    def stop(self, reason: str) -> None:
        """Fail-stop, as after a disk error: the process ends, its supervisor starts it again."""
        self.crash()
        self.around.stopped(self, reason)

    # -- inputs ------------------------------------------------------------------------------------

    def set_rate(self, rate: int) -> None:
        """From now on the clock of this node is fast or slow."""
        self._account()
        self.clock.rate = rate
        self.wake_at = self.around.events.now + 1

    def heal(self) -> None:
        """Right time, a sound disk, a processor as fast as any; what is down stays down."""
        self._account()
        self.clock.heal(self.around.events.now)
        self.disk.heal()
        self.undecided = [set() for _ in self.configs]
        self.arm_crash(-1)
        self.pace = 0
        self.wake_at = self.around.events.now + 1

    def set_pace(self, frames: int) -> None:
        self.pace = frames
        self.wake_at = self.around.events.now + 1

    def _account(self) -> None:
        """Virtual time that passed since the last look, in ticks of this node's own clock."""
        now = self._events.now
        passed = now - self._seen
        if passed:
            clock = self.clock
            self._owed += passed if clock.rate == RATE_UNIT else clock.ticks_due(passed)
            self._seen = now

    def tick(self) -> None:
        """Called at `wake_at`: a timer is due, or a slow processor goes on with its work.

        Ticks in which no timer is due are saved up and handed over together, before the next
        timer or the next input, whichever comes first.
        """
        if not self.replicas or self.paused_until:
            self.wake_at = NEVER
            return
        if self.pace or self._backlog:
            self._work_off()
            if not self.replicas:
                return
        self._account()
        if self.replicas[0].timers.now + self._owed >= self._deadline:
            self._settle()
        else:
            self._rest()

    def _work_off(self) -> None:
        """A slow processor takes the oldest frames first, and only so many a tick."""
        self._paced = 0
        while self._backlog and self.replicas and (not self.pace or self._paced < self.pace):
            self._paced += 1
            self._take(*self._backlog.popleft())

    def _catch_up(self) -> bool:
        """Brings the replicas' clocks to now; true when timers were due, which have fired."""
        now, clock, replicas = self._events.now, self.clock, self.replicas
        monotonic = now * TICK_US
        if clock.rate == RATE_UNIT:
            # As below, without the calls: this comes before nearly every input.
            owed = self._owed + now - self._seen
            wall = EPOCH_US + monotonic + clock.offset_us
        else:
            owed = self._owed + clock.ticks_due(now - self._seen)
            wall = clock.wall_us(now)
        self._seen = now
        if not owed or not replicas:
            return False
        self._owed = 0
        ticks, has_fired = replicas[0].timers.now + owed, False
        for replica in replicas:
            replica.monotonic_us = monotonic
            replica.wall_us = wall
            timers = replica.timers
            timers.now = ticks
            if ticks >= timers.next_deadline:
                try:
                    replica.tick(0)
                except InvariantError as error:
                    raise self._broken(replica.group, error) from error
                if replica.effects:
                    self._drain(replica)
                has_fired = True
        return has_fired

    def _rest(self) -> None:
        """Until the first timer of any group; their clocks all show the same."""
        if not self.replicas:
            self.wake_at = NEVER
            return
        self._deadline = min([replica.timers.next_deadline for replica in self.replicas])
        if self.pace or self._backlog:
            self.wake_at = self._seen + 1
            return
        left = self._deadline - self.replicas[0].timers.now - self._owed
        self.wake_at = self._seen + max(1, self.clock.ticks_until(left))

    def upgrade(self) -> None:
        """The next start is one of the newer release."""
        self.configs = [replace(config, release=NEWER_RELEASE) for config in self.configs]

    def hand_over(self) -> None:
        """As before a planned restart: the leader leaves its view."""
        if self.replicas and not self.paused_until:
            self.input(0, self.replicas[0].step_down, ())

    def receive(self, source: int, frame: Any) -> None:
        if not self.replicas:
            return
        if self.paused_until:
            self.held(self.receive, (source, frame))
            return
        if self.pace:
            if self._paced >= self.pace or self._backlog:
                # A socket takes only so much; what does not fit is lost with its connection.
                if len(self._backlog) < BACKLOG_MAX:
                    self._backlog.append((source, frame))
                return
            self._paced += 1
        if type(frame) is tuple:
            self._take_frame(source, frame)
        else:
            self._take(source, frame)

    def _take(self, source: int, frame: Any) -> None:
        kind = type(frame)
        if kind is tuple:
            self._take_frame(source, frame)
        elif kind is bytes:
            self._take_frame(source, self._decode(frame))
        elif kind is Call:
            if self._trace.enabled:
                asked = f"<- client {source} {frame.operation} request {frame.request}"
                self.say(frame.group, asked)
            self.service.call(source, frame)
        elif kind is ReadCall:
            self.service.read(source, frame)
        else:
            self._refuse(frame)

    def _take_frame(self, source: int, frame: tuple[Any, bytes]) -> None:
        header = frame[0]
        kind = type(header)
        group: int = 0 if kind in OF_THE_NODE else header.namespace
        if self._trace.enabled:
            self.say(group, f"<- {source} {describe(header)}")
        if kind is Reply:
            self.service.relaying = True
        self.input(group, self.replicas[group].on_frame, frame)
        if kind is Reply:
            self.service.relaying = False

    def _refuse(self, frame: Corrupted | Foreign) -> None:
        """What is not as a replica sent it must not become a value."""
        data: Any
        if isinstance(frame, Foreign):
            data, what = frame.data, frame.what
        else:
            data, what = frame.frame, "a wrong bit"
            if type(data) is not bytes:
                return
            position = int(frame.spot * len(data))
            data = data[:position] + bytes([data[position] ^ 32]) + data[position + 1 :]
        try:
            self._decode(data)
        except FrameRefused:
            self.around.auditor.counters[f"frame refused: {what}"] += 1
            return
        raise Violation("frames", f"replica {self.number} takes a frame with {what}")

    def _decode(self, frame: bytes) -> tuple[Header, bytes]:
        config = self.configs[0]
        return decode_frame(frame, config.cluster, config.replica_count)

    def completed(self, group: int, what: str, token: int) -> None:
        """The disk finished a write."""
        if self.paused_until:
            self.held(self.completed, (group, what, token))
            return
        replica = self.replicas[group]
        if self._trace.enabled:
            self.say(group, f"synced {what} {token}")
        if what == "journal":
            self.input(group, replica.on_written, (token,))
        elif what == "superblock":
            self.input(group, replica.on_superblock_written, (token,))
        else:
            self.input(group, replica.on_checkpoint_written, (token,))

    def input(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Runs one input to completion, its effects, and every input that follows from those."""
        inputs = self._inputs
        if self._busy:
            inputs.append((group, method, arguments))
            return
        self._busy = True
        try:
            if (self._events.now != self._seen or self._owed) and self._catch_up():
                self._rest()
            # A timer that was due may have ended this process, and so may an effect.
            while self.replicas:
                try:
                    method(*arguments)
                except InvariantError as error:
                    raise self._broken(group, error) from error
                replica = self.replicas[group]
                if replica.timers.next_deadline < self._deadline:
                    self._rest()
                if replica.effects:
                    self._drain(replica)
                if group and self.replicas:
                    self._tell_position(group, replica)
                if not inputs:
                    break
                group, method, arguments = inputs.popleft()
        finally:
            self._busy = False

    def later(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._inputs.append((group, method, arguments))

    def held(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
        if self.paused_until:
            self._inbox.append((action, arguments))
        return bool(self.paused_until)

    def _settle(self) -> None:
        """Timers that are due, every input that is queued, and what follows from those."""
        self._busy = True
        try:
            self._catch_up()
        finally:
            self._busy = False
        if self._inputs:
            self.input(*self._inputs.popleft())
        self._rest()

    def _drain(self, replica: Replica) -> None:
        """Carries out the effects of one input; handlers queue what follows from them."""
        if not self.replicas:
            return
        group, handlers = replica.group, self._handlers
        effects = replica.take_effects()
        if self.fuse < 0:
            for effect in effects:
                handlers[type(effect)](group, effect)
            return
        for effect in effects:
            if self.fuse == 0:
                self.say(group, f"dies before {type(effect).__name__}")
                self.crash()
                self.around.crashed_inside(self)
                return
            self.fuse -= 1
            handlers[type(effect)](group, effect)

    def _tell_position(self, group: int, replica: Replica) -> None:
        """The control group's Commit carries where every data group stands."""
        view, commit, checkpoint_op = replica.view, replica.commit_max, replica.checkpoint_op
        told = self._positions[group]
        if commit == told[1] and view == told[0] and checkpoint_op == told[2]:
            return
        self._positions[group] = (view, commit, checkpoint_op)
        on_position, identity = self.replicas[0].on_position, replica.checkpoint_checksum
        if self._inputs:
            arguments = (group, view, commit, checkpoint_op, identity)
            self._inputs.append((0, on_position, arguments))
        else:
            # It would be the next input, and it has no effects.
            on_position(group, view, commit, checkpoint_op, identity)

    def _broken(self, group: int, error: Exception) -> Violation:
        return Violation(
            "invariant", f"replica {self.number} group {group}: {type(error).__name__}: {error}"
        )

    def say(self, group: int, event: str) -> None:
        trace = self.around.trace
        if not trace.enabled:
            return
        now = self.around.events.now
        if self.replicas:
            faulty = sum(not record.is_good for record in self.disk.volumes[group].records)
            trace.line(event_line(now, self.replicas[group], faulty, event))
        else:
            trace.line(f"{now:>7} {self.number}/{group} {event}")
