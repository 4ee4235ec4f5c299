"""One simulated machine: the production replicas of all groups, on a faulty disk and clock.

A node executes the effects of its replicas in order and feeds results back as new inputs, never
from inside an effect. It can be killed between any two effects, stopped for a while, and started
again from what its disk kept.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from borzoi.consensus import effects as fx
from borzoi.consensus.config import Config
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.replica import Replica
from borzoi.simulator import restoring
from borzoi.simulator.auditor import Violation
from borzoi.simulator.disk import Disk
from borzoi.simulator.intake import Intake
from borzoi.simulator.machines import ControlMachine, DataMachine, Machine
from borzoi.simulator.outputs import Outputs
from borzoi.simulator.service import RunContext, Service
from borzoi.simulator.timekeeping import Timekeeper
from borzoi.simulator.trace import event_line

# A process that was stopped reads its sockets first and then makes up for a few ticks only (T3).
CATCH_UP_TICKS_MAX: Final = 5
NEWER_RELEASE: Final = 2


class SimulatedNode:
    """Implements what the nemesis may do to a machine, and carries out what replicas decide."""

    __slots__ = (
        "_busy", "_events", "_former_ticks", "_handlers", "_inbox", "_inputs", "_positions",
        "around", "configs", "disk", "fuse", "intake", "leadership", "life", "machines", "number",
        "paused_until", "rejoining", "replicas", "service", "timekeeper", "undecided", "unfounded",
    )  # fmt: skip

    def __init__(self, number: int, configs: list[Config], disk: Disk, around: RunContext) -> None:
        self.number = number
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
        # Kept in attributes because every input needs them.
        self._events = around.events
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._inputs: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._busy = False
        self._positions = [(-1, -1, -1) for _ in configs]
        self.service = Service(self, around)
        self.intake = Intake(self, around, self.service)
        self.timekeeper = Timekeeper(self, around.events, self.intake)
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
        self.timekeeper.restart()
        for group, replica in enumerate(replicas):
            self.say(group, "starts")
            self.drain(replica)
        self.rejoining = self.rejoining or any(one.wiped for one in self.replicas)
        self.settle()

    @property
    def is_formatted(self) -> bool:
        return all(volume.newest() is not None for volume in self.disk.volumes)

    def _replace_damaged(self) -> None:
        """A checkpoint that is not what its manifest says is refused; the operator wipes (G3)."""
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
        self.intake.backlog.clear()
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
        self.timekeeper.account()
        self.paused_until = self.around.events.now + ticks
        self.around.events.after(ticks, self._resume, self.life)

    def _resume(self, life: int) -> None:
        if life != self.life or not self.is_up or not self.paused_until:
            return
        self.paused_until = 0
        self.timekeeper.skip()
        inbox, self._inbox = self._inbox, []
        for action, arguments in inbox:
            if life == self.life and self.is_up:
                action(*arguments)
        for _ in range(CATCH_UP_TICKS_MAX):
            if life == self.life and self.is_up:
                self.timekeeper.owed += 1
                self.settle()

    def arm_crash(self, effects: int) -> None:
        self.fuse = effects

    def stop(self, reason: str) -> None:
        """Fail-stop, as after a disk error: the process ends, its supervisor starts it again."""
        self.crash()
        self.around.stopped(self, reason)

    def heal(self) -> None:
        """Right time, a sound disk, a processor as fast as any; what is down stays down."""
        self.timekeeper.heal()
        self.disk.heal()
        self.undecided = [set() for _ in self.configs]
        self.arm_crash(-1)

    def upgrade(self) -> None:
        """The next start is one of the newer release."""
        self.configs = [replace(config, release=NEWER_RELEASE) for config in self.configs]

    def hand_over(self) -> None:
        """As before a planned restart: the leader leaves its view."""
        if self.replicas and not self.paused_until:
            self.input(0, self.replicas[0].step_down, ())

    # -- inputs ------------------------------------------------------------------------------------

    def input(self, group: int, method: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Runs one input to completion, its effects, and every input that follows from those."""
        inputs = self._inputs
        if self._busy:
            inputs.append((group, method, arguments))
            return
        timekeeper = self.timekeeper
        self._busy = True
        try:
            if (self._events.now != timekeeper.seen or timekeeper.owed) and timekeeper.catch_up():
                timekeeper.rest()
            # A timer that was due may have ended this process, and so may an effect.
            while self.replicas:
                try:
                    method(*arguments)
                except InvariantError as error:
                    raise self.broken(group, error) from error
                replica = self.replicas[group]
                if replica.timers.next_deadline < timekeeper.deadline:
                    timekeeper.rest()
                if replica.effects:
                    self.drain(replica)
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

    def settle(self) -> None:
        """Timers that are due, every input that is queued, and what follows from those."""
        self._busy = True
        try:
            self.timekeeper.catch_up()
        finally:
            self._busy = False
        if self._inputs:
            self.input(*self._inputs.popleft())
        self.timekeeper.rest()

    def drain(self, replica: Replica) -> None:
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

    def broken(self, group: int, error: Exception) -> Violation:
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
