"""The trouble-maker: decides when which fault of the draw strikes, and what it strikes.

Each kind has its own recurring event with exponential gaps and draws from the stream of its
concern. The nemesis stops at the end of the safety phase; from then on only `heal` is called.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

from borzoi.simulator.clocks import RATE_UNIT
from borzoi.simulator.disk import Disk
from borzoi.simulator.draws import Draw
from borzoi.simulator.events import EventQueue
from borzoi.simulator.intake import Intake
from borzoi.simulator.network import Network
from borzoi.simulator.randomness import happens, spread, stream
from borzoi.simulator.rot import rot_checkpoint, rot_survivable, rot_unnamed
from borzoi.simulator.strangers import stranger
from borzoi.simulator.timekeeping import Timekeeper

# A leader has to be silent for longer than the heartbeat before anyone votes.
DISTURBANCE_TICKS: Final = {True: (150, 400), False: (700, 1200)}
CLOCK_JUMP_US_MAX: Final = 20_000_000


class Machine(Protocol):
    """What the nemesis may do to a node."""

    number: int
    rejoining: bool
    disk: Disk
    intake: Intake
    timekeeper: Timekeeper

    @property
    def is_up(self) -> bool: ...

    @property
    def is_rejoining(self) -> bool: ...

    def crash(self) -> None: ...

    def start(self) -> None: ...

    def wipe(self) -> None: ...

    def pause(self, ticks: int) -> None: ...

    def arm_crash(self, effects: int) -> None: ...

    def hand_over(self) -> None: ...

    def upgrade(self) -> None: ...


class Nemesis:
    def __init__(
        self,
        draw: Draw,
        events: EventQueue,
        network: Network,
        nodes: Sequence[Machine],
        primary: Callable[[], int | None],
        commands: Sequence[int],
        log: Callable[[str], None],
        cluster: bytes = bytes(16),
    ) -> None:
        self.draw = draw
        self._cluster = cluster
        self.counts: Counter[str] = Counter()
        self._active = True
        self._events = events
        self._network = network
        self._nodes = nodes
        self._primary = primary
        self._commands = commands
        self._log = log
        self._process = stream(draw.seed, "process")
        self._wires = stream(draw.seed, "network/partitions")
        self._storage = stream(draw.seed, "storage/faults")
        self._time = stream(draw.seed, "clock")
        self._partition_number = 0
        self._upgraded = 0

    def begin(self) -> None:
        draw = self.draw
        for every, random, strike in (
            (draw.crash_every, self._process, self.crash),
            (draw.pause_every, self._process, self.pause),
            (draw.partition_every, self._wires, self.partition),
            (draw.rot_every, self._storage, self.rot),
            (draw.wipe_every, self._storage, self.wipe),
            (draw.sync_error_every, self._storage, self.sync_error),
            (draw.disk_full_every, self._storage, self.disk_full),
            (draw.clock_jump_every, self._time, self.jump_clock),
            (draw.handover_every, self._process, self.hand_over),
            (draw.upgrade_every, self._process, self.upgrade),
            (draw.strangers_every, self._wires, self.stranger),
        ):
            if every:
                self._recur(every, random, strike)
        if draw.clogging:
            links = draw.replicas * draw.replicas
            self._recur(int(1 / (draw.clogging * links)) + 1, self._wires, self.clog)
        if draw.disturb_primary:
            when = self._process.randint(draw.safety_ticks // 6, draw.safety_ticks // 2)
            self._events.after(when, self._disturb_primary, None)
        if draw.slow_replica:
            slow = self._nodes[self._storage.randrange(draw.replicas)]
            slow.disk.slowness = draw.slow_factor
            self.counts["slow replica"] += 1
        if draw.slow_cpu:
            slow = self._nodes[self._process.randrange(draw.replicas)]
            slow.timekeeper.set_pace(draw.slow_cpu)
            self.counts["slow processor"] += 1
        self._set_clocks()

    def _set_clocks(self) -> None:
        for node in self._nodes:
            if self.draw.clock_skew_us:
                skew = self.draw.clock_skew_us
                node.timekeeper.clock.offset_us = self._time.randint(-skew, skew)
                self.counts["clock skew"] += 1
            if self.draw.clock_drift:
                drift = self.draw.clock_drift
                node.timekeeper.set_rate(RATE_UNIT + self._time.randint(-drift, drift))
                self.counts["clock drift"] += 1

    def _recur(self, every: int, random: Random, strike: Callable[[], None]) -> None:
        def fire(_: Any) -> None:
            if self._active:
                strike()
                self._events.after(spread(random, every), fire, None)

        self._events.after(spread(random, every), fire, None)

    # -- processes ---------------------------------------------------------------------------------

    def _up(self) -> list[Machine]:
        return [node for node in self._nodes if node.is_up]

    def crash(self) -> None:
        up = self._up()
        if not up:
            return
        random = self._process
        count = 1
        if self.draw.crash_many and happens(random, 0.4):
            count = random.choice((1, max(1, (len(self._nodes) - 1) // 2), len(up), len(up)))
        for node in random.sample(up, min(count, len(up))):
            self.counts["crash" if count == 1 else "crash of several"] += 1
            if self.draw.crash_inside_input and happens(random, 0.5):
                # Between two effects of a coming input: the node does half of what it decided.
                node.arm_crash(random.randint(0, 6))
                self._log(f"nemesis arms a crash of replica {node.number}")
                self._events.after(200, self._ensure_crashed, node)
            else:
                self.kill(node, random.randint(1, self.draw.restart_max))

    def _ensure_crashed(self, node: Machine) -> None:
        node.arm_crash(-1)

    def kill(self, node: Machine, restart_after: int) -> None:
        self._log(f"nemesis crashes replica {node.number} for {restart_after} ticks")
        node.crash()
        self._events.after(restart_after, self._restart, node)

    def crashed_inside(self, node: Machine) -> None:
        """An armed crash went off."""
        self.counts["crash inside an input"] += 1
        self._events.after(self._process.randint(1, self.draw.restart_max), self._restart, node)

    def stopped(self, node: Machine, reason: str) -> None:
        """A node ended itself, as it must after a disk error; the supervisor starts it again."""
        self._log(f"replica {node.number} stopped itself: {reason}")
        self._events.after(self._process.randint(1, self.draw.restart_max), self._restart, node)

    def _restart(self, node: Machine) -> None:
        if self._active and not node.is_up:
            node.start()

    def pause(self) -> None:
        up = self._up()
        if up:
            node = self._process.choice(up)
            ticks = self._process.randint(10, self.draw.pause_max)
            self.counts["pause"] += 1
            self._log(f"nemesis pauses replica {node.number} for {ticks} ticks")
            node.pause(ticks)

    def upgrade(self) -> None:
        """Rolling: one replica after the other comes back as the newer release."""
        if self._upgraded < len(self._nodes):
            node = self._nodes[self._upgraded]
            self._upgraded += 1
            self.counts["upgrade"] += 1
            node.upgrade()
            if node.is_up:
                self.kill(node, self._process.randint(1, self.draw.restart_max))

    def hand_over(self) -> None:
        number = self._primary()
        if self.draw.handover_anyone and happens(self._process, 0.5):
            # A rolling restart tells everyone in turn.
            number = self._process.randrange(len(self._nodes))
        if number is not None and len(self._nodes) > 1:
            self.counts["hand-over"] += 1
            self._log(f"replica {number} is told to hand over")
            self._nodes[number].hand_over()

    def _disturb_primary(self, _: Any) -> None:
        """Every seed has one: a run in which the leader is never lost shows nothing."""
        number = self._primary()
        if not self._active:
            return
        if number is None or not self._nodes[number].is_up:
            self._events.after(50, self._disturb_primary, None)
            return
        low, high = DISTURBANCE_TICKS[bool(self.draw.fast_timeouts)]
        ticks = self._process.randint(low, high)
        node = self._nodes[number]
        self.counts["primary disturbed"] += 1
        if len(self._nodes) > 1 and happens(self._process, 0.4):
            self._log(f"nemesis pauses primary {number} for {ticks} ticks")
            node.pause(ticks)
        else:
            self.kill(node, ticks)

    # -- network -----------------------------------------------------------------------------------

    def partition(self) -> None:
        random = self._wires
        replicas = list(range(self.draw.replicas))
        clients = list(range(self.draw.replicas, self._network.endpoints))
        both_ways = not (self.draw.one_way and happens(random, 0.5))
        self._partition_number += 1
        if self.draw.command_filters and happens(random, 0.5):
            self._filter_commands(random, replicas)
        else:
            random.shuffle(replicas)
            sizes = (1, random.randint(1, len(replicas)), (len(replicas) + 1) // 2)
            size = random.choice(sizes)
            left, right = replicas[:size], replicas[size:]
            for client in clients:
                (left if happens(random, 0.5) else right).append(client)
            self._network.split(left, right, both_ways=both_ways)
            self.counts["partition" if both_ways else "one-way partition"] += 1
            self._log(f"nemesis cuts {sorted(left)} {'<->' if both_ways else '->'} {sorted(right)}")
        self._events.after(
            spread(random, self.draw.partition_stable), self._heal_partition, self._partition_number
        )

    def _filter_commands(self, random: Random, replicas: list[int]) -> None:
        source, target = random.choice(replicas), random.choice(replicas)
        commands = random.sample(list(self._commands), random.randint(1, 3))
        self._network.filter(source, target, commands)
        self.counts["command filter"] += 1
        self._log(f"nemesis drops commands {commands} from {source} to {target}")

    def _heal_partition(self, number: int) -> None:
        if self._active and number == self._partition_number:
            self._network.heal()
            self._log("nemesis heals the network")

    def stranger(self) -> None:
        """A connection to the replicas' port that speaks almost the right protocol."""
        node = self._wires.choice(list(self._nodes))
        self.counts["malformed frame"] += 1
        frame = stranger(self._wires, self._cluster, self.draw.replicas)
        node.intake.receive(self._wires.randrange(self.draw.replicas), frame)

    def clog(self) -> None:
        random = self._wires
        source, target = random.randrange(self.draw.replicas), random.randrange(self.draw.replicas)
        self._network.clog(source, target, spread(random, self.draw.clog_ticks_mean))
        self.counts["clog"] += 1

    # -- disks -------------------------------------------------------------------------------------

    def rot(self) -> None:
        node = self._storage.choice(list(self._nodes))
        what = rot_survivable(
            node.disk.volumes,
            self._storage,
            node.number,
            self.draw.replicas,
            deep=bool(self.draw.rot_deep),
        )
        if what is not None:
            self.counts[f"bit rot: {what}"] += 1
            self._log(f"nemesis lets {what} rot on replica {node.number}")

    def wipe(self) -> None:
        """One replica at a time, and not while an earlier one is still on its way back."""
        if any(node.is_rejoining for node in self._nodes):
            return
        node = self._storage.choice(list(self._nodes))
        if happens(self._storage, 0.35) and self._rot_checkpoint(node):
            return
        if node.is_up:
            node.crash()
        deep = bool(self.draw.rot_deep)
        if happens(self._storage, 0.3) and rot_unnamed(node.disk.volumes, self._storage, deep=deep):
            self.counts["bit rot: unnamed records"] += 1
            self._log(f"nemesis spoils several journal headers of replica {node.number}")
            node.rejoining = True
        else:
            self.counts["wiped disk"] += 1
            self._log(f"nemesis wipes the disk of replica {node.number}")
            node.wipe()
        self._events.after(self._storage.randint(1, self.draw.restart_max), self._restart, node)

    def _rot_checkpoint(self, node: Machine) -> bool:
        """A checkpoint without a bit is a lost disk at the next start, and until then an offer to
        others that they must not take."""
        what = rot_checkpoint(self._storage.choice(node.disk.volumes), self._storage)
        if what is None:
            return False
        self.counts[f"bit rot: {what}"] += 1
        self._log(f"nemesis lets a {what} rot on replica {node.number}")
        node.rejoining = True
        if node.is_up and happens(self._storage, 0.5):
            self.kill(node, self._storage.randint(1, self.draw.restart_max))
        return True

    def sync_error(self) -> None:
        up = self._up()
        if up:
            self._storage.choice(up).disk.fail_next_sync("fsync error")

    def disk_full(self) -> None:
        up = self._up()
        if up:
            self._storage.choice(up).disk.fail_next_sync("disk full")

    # -- clocks ------------------------------------------------------------------------------------

    def jump_clock(self) -> None:
        node = self._time.choice(list(self._nodes))
        node.timekeeper.clock.jump(self._time.randint(-CLOCK_JUMP_US_MAX, CLOCK_JUMP_US_MAX))
        self.counts["clock jump"] += 1

    # -- the end -----------------------------------------------------------------------------------

    def rest(self) -> None:
        """No new faults from here on; what is broken stays broken until healed."""
        self._active = False
