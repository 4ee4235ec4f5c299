"""One run: a cluster, its clients and its troubles, from a draw to an outcome.

First *safety*: faults strike for the drawn time and nothing wrong may be seen, however little gets
done. Then *liveness*: a core of replicas is healed, everything outside it stays broken, and within
a minute of virtual time requests must commit and the core must converge.
"""

import gc
import traceback
from collections.abc import Callable
from random import Random
from time import process_time
from typing import Any, Final

from borzoi.consensus import superblock as superblocks
from borzoi.consensus.config import Config, Timeouts
from borzoi.consensus.effects import Leadership
from borzoi.consensus.messages import Command, Operation
from borzoi.consensus.quorum import quorums
from borzoi.simulator import convergence
from borzoi.simulator.auditor import Auditor, Violation
from borzoi.simulator.disk import Disk
from borzoi.simulator.draws import Draw
from borzoi.simulator.events import EventQueue, MessageStorm
from borzoi.simulator.nemesis import Nemesis
from borzoi.simulator.network import QUIET, Network
from borzoi.simulator.node import NEWER_RELEASE, SimulatedNode
from borzoi.simulator.outcome import Failure, RunOutcome
from borzoi.simulator.planting import plant
from borzoi.simulator.randomness import happens, stream
from borzoi.simulator.service import RunContext
from borzoi.simulator.trace import Trace
from borzoi.simulator.workload import Workload

CLUSTER: Final = bytes(range(16))
# What the nemesis may filter on a link between replicas.
FILTERED: Final = (
    Command.PREPARE, Command.PREPARE_OK, Command.COMMIT, Command.START_VIEW_CHANGE,
    Command.DO_VIEW_CHANGE, Command.START_VIEW, Command.REQUEST_START_VIEW,
    Command.REQUEST_HEADERS, Command.HEADERS, Command.REQUEST_PREPARE, Command.PING, Command.PONG,
    Command.STATE_CHUNK,
)  # fmt: skip
REPAIRS: Final = (Command.REQUEST_PREPARE, Command.REQUEST_HEADERS)
CHECK_EVERY: Final = 50
# What only the newer of two releases knows, in seeds with two.
NEWER_OPERATIONS: Final = (
    (Operation.STORE_CONSUMER_OFFSET.value, NEWER_RELEASE),
    (Operation.UPDATE_TOPIC.value, NEWER_RELEASE),
    (Operation.PURGE_PARTITION.value, NEWER_RELEASE),
)
UNDECIDED_LOOKS: Final = 300
GENESIS_LATE_TICKS: Final = 300
GENESIS_TICKS_MAX: Final = 6000
# Acknowledged requests that show a healed core alive, and how often convergence is looked for.
PROGRESS_REPLIES: Final = 5


def command_of(frame: Any) -> int:
    """The command of a frame between replicas; 0 for what clients and nodes exchange."""
    if type(frame) is tuple:
        return int(frame[0].command)
    return frame[60] if type(frame) is bytes else 0


def configs_for(draw: Draw, number: int) -> list[Config]:
    return [
        Config(
            cluster=CLUSTER,
            replica_id=number,
            replica_count=draw.replicas,
            group=group,
            pipeline_max=draw.pipeline_max,
            checkpoint_interval=draw.checkpoint_ops,
            checkpoint_bytes=draw.checkpoint_bytes,
            checkpoint_ticks=draw.checkpoint_ticks,
            retain_ops=draw.retained_ops,
            client_table_max=draw.client_table_max,
            request_queue_max=draw.request_queue_max,
            chunk_bytes=draw.chunk_bytes,
            data_groups=draw.data_groups,
            timeouts=Timeouts.fast() if draw.fast_timeouts else Timeouts(),
            newer_operations=NEWER_OPERATIONS if draw.upgrade_every else (),
        )
        for group in range(draw.data_groups + 1)
    ]


class Simulation:
    """Everything of one run. Tests script their own trouble on it; `run` follows the draw."""

    def __init__(
        self,
        draw: Draw,
        *,
        trace: Callable[[str], None] | None = None,
        keep_trace: bool = False,
    ) -> None:
        self.draw = draw
        self.events = EventQueue()
        self.trace = Trace(trace, keep=keep_trace)
        self.quorums = quorums(draw.replicas)
        self.auditor = Auditor(
            draw.replicas, draw.data_groups + 1, self.quorums, draw.segment_bytes
        )
        self.core = list(range(draw.replicas))
        self.network = Network(
            self.events,
            stream(draw.seed, "network"),
            draw.network(),
            draw.replicas + draw.clients,
            command_of,
            digest=draw.seed,
        )
        around = RunContext(
            self.events,
            self.network,
            self.auditor,
            self.trace,
            bool(draw.full),
            draw.seed,
            draw.segment_bytes,
            self._stopped,
            self._crashed_inside,
        )
        self.nodes = [self._node(number, around) for number in range(draw.replicas)]
        self.timekeepers = [node.timekeeper for node in self.nodes]
        self.workload = Workload(draw, around)
        self.network.receivers += [node.intake.receive for node in self.nodes]
        self.network.receivers += [client.receive for client in self.workload.clients]
        self.nemesis = Nemesis(
            draw,
            self.events,
            self.network,
            self.nodes,
            self.primary,
            FILTERED,
            self._log,
            CLUSTER,
        )

    def _node(self, number: int, around: RunContext) -> SimulatedNode:
        draw = self.draw
        configs = configs_for(draw, number)
        disk = Disk(
            number,
            draw.replicas,
            len(configs),
            self.events,
            stream(draw.seed, f"storage/{number}"),
            lambda group, what, token: self.nodes[number].intake.completed(group, what, token),
            lambda reason: self.nodes[number].stop(reason),
        )
        disk.synced = self.auditor.synced
        disk.sync_min, disk.sync_max = draw.sync_min, max(draw.sync_min, draw.sync_max)
        disk.sync_slow = draw.sync_slow
        disk.stale_reads = draw.stale_reads
        disk.lost_writes = draw.lost_writes
        if not draw.genesis:
            for config, volume in zip(configs, disk.volumes, strict=True):
                volume.format(superblocks.genesis(config))
        node = SimulatedNode(number, configs, disk, around)
        node.unfounded = bool(draw.genesis)
        return node

    # -- plumbing ----------------------------------------------------------------------------------

    def _log(self, text: str) -> None:
        if self.trace.enabled:
            self.trace.line(f"{self.events.now:>7} {text}")

    def _stopped(self, node: SimulatedNode, reason: str) -> None:
        self.nemesis.stopped(node, reason)

    def _crashed_inside(self, node: SimulatedNode) -> None:
        self.nemesis.crashed_inside(node)

    def primary(self) -> int | None:
        """The node that leads the control group in the highest view, if one does."""
        leading = [
            (node.replicas[0].view, node.number)
            for node in self.nodes
            if node.is_up and node.leadership[0] is Leadership.LEADER
        ]
        return max(leading)[1] if leading else None

    # -- running -----------------------------------------------------------------------------------

    def start(self) -> None:
        for node in self.nodes[: -1 if self.draw.genesis else None]:
            node.start()
        self.workload.begin()

    def found(self) -> None:
        """Genesis: the last replica comes late, and then all must agree that all are empty (G1)."""
        random = stream(self.draw.seed, "genesis")
        self.advance(random.randint(1, GENESIS_LATE_TICKS))
        self.nodes[-1].start()
        if self.draw.genesis > 1:
            self._stumble(random)
        for tick in range(GENESIS_TICKS_MAX):
            if all(node.is_formatted for node in self.nodes):
                break
            if tick == GENESIS_TICKS_MAX // 2:
                self._replace_latecomers()
            self.step()
        else:
            raise Violation("genesis", "empty disks did not found a cluster")
        for node in self.nodes:
            node.unfounded = False

    def _stumble(self, random: Random) -> None:
        """One dies during genesis: the process that comes back is not the one that was counted.

        Always the same one: if it comes too late its disk counts as lost, and one at a time may be.
        """
        node = random.choice(self.nodes)
        for _ in range(random.randint(1, 3)):
            self.advance(random.randint(1, 30))
            node.crash()
            self.advance(random.randint(1, 10))
            node.start()

    def _replace_latecomers(self) -> None:
        """An empty disk beside disks that are not: only the operator can say that it is new."""
        if any(node.is_formatted for node in self.nodes):
            for node in self.nodes:
                if not node.is_formatted:
                    node.crash()
                    node.unfounded = False
                    node.start()

    def step(self) -> None:
        """One tick of virtual time."""
        self.advance(1)

    def advance(self, ticks: int) -> None:
        """So many ticks; those in which nothing happens are jumped over."""
        events, timekeepers = self.events, self.timekeepers
        now = events.now
        end = now + ticks
        check = now - now % CHECK_EVERY + CHECK_EVERY
        while now < end:
            upcoming = check if check < end else end
            due = events.next_tick()
            if due is not None and due < upcoming:
                upcoming = due
            wakes = end
            for timekeeper in timekeepers:
                if timekeeper.wake_at < wakes:
                    wakes = timekeeper.wake_at
            if wakes < upcoming:
                upcoming = wakes
            now = upcoming if upcoming > now else now + 1
            if wakes <= now:
                self._wake(now)
            events.run_tick(now)
            if now == check:
                convergence.check_resources(self.nodes, self.draw)
                check += CHECK_EVERY

    def _wake(self, tick: int) -> None:
        """Every node whose own clock wants something."""
        self.events.now = tick
        for timekeeper in self.timekeepers:
            if timekeeper.wake_at <= tick:
                timekeeper.tick()

    def run(self) -> Failure | None:
        try:
            self.start()
            if self.draw.genesis:
                self.found()
            self.nemesis.begin()
            self.advance(self.draw.safety_ticks)
            self.nemesis.rest()
            self.liveness()
        except Violation as violation:
            return Failure(violation.kind, violation.message, self.events.now, self.trace.last())
        except MessageStorm as storm:
            return Failure("resources", str(storm), self.events.now, self.trace.last())
        except Exception as error:  # whatever escapes from the core is a failure of this seed
            where = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {error} ({where.name}:{where.lineno})"
            return Failure("crash", message, self.events.now, self.trace.last())
        return None

    def liveness(self) -> None:
        """Heals a core and waits for it to serve and to agree."""
        self.heal()
        before = list(self.workload.acknowledged)
        self.workload.wake()
        deadline = self.events.now + self.draw.liveness_ticks
        while self.events.now < deadline:
            self.advance(10 - self.events.now % 10)
            if not self.workload.quiet:
                self.workload.quiet = self._progressed(before)
            elif convergence.converged(self.nodes, self.core, self.auditor):
                convergence.check_final(self.nodes, self.core, self.auditor)
                return
        stuck = convergence.stuck(self.nodes, self.core, self.workload)
        for _ in range(UNDECIDED_LOOKS):
            # A merge that cannot be decided is tried again in view after view.
            if convergence.is_undecidable(self.nodes, self.core):
                self.auditor.counters["undecidable"] += 1
                return
            self.advance(1)
        raise Violation("liveness", stuck)

    def _progressed(self, before: list[int]) -> bool:
        done = sum(self.workload.acknowledged) - sum(before)
        return done >= PROGRESS_REPLIES

    def heal(self) -> None:
        random = stream(self.draw.seed, "liveness")
        self.core = self._choose_core(random.sample(range(self.draw.replicas), self.draw.replicas))
        outside = [number for number in range(self.draw.replicas) if number not in self.core]
        self.network.faults = QUIET
        self.network.heal()
        self.network.unclog()
        self._log(f"liveness: core {self.core}, broken {outside}")
        for node in self.nodes:
            node.heal()
        for number in outside:
            if self.nodes[number].is_up and happens(random, 0.5):
                self.nodes[number].crash()
            everyone = [other for other in range(self.network.endpoints) if other != number]
            self.network.split([number], everyone)
        for number in self.core:
            node = self.nodes[number]
            if not node.is_up:
                node.start()

    def _choose_core(self, shuffled: list[int]) -> list[int]:
        """At least a view-change quorum of replicas that may vote; all of them in half of the runs.

        Where records rotted, the good copy may lie outside a smaller core, so there it is all.
        """
        rotten = any(
            volume.doubted or any(not record.is_good for record in volume.records)
            for node in self.nodes
            for volume in node.disk.volumes
        )
        if self.draw.core_all or rotten:
            return sorted(shuffled)
        voters = [number for number in shuffled if not self.nodes[number].is_rejoining]
        core = voters[: self.quorums.view_change]
        return sorted(core) if len(core) == self.quorums.view_change else sorted(shuffled)


def simulate(
    draw: Draw, *, bugs: tuple[str, ...] = (), trace: Callable[[str], None] | None = None
) -> RunOutcome:
    """Runs one draw. A failure is run again with the trace kept, since tracing costs time."""
    began = process_time()
    # Nothing a run makes is cyclic garbage before its end, so the collector is off. Also
    # while its outcome is taken: a collection would walk all of it and free nothing.
    gc.disable()
    try:
        with plant(*bugs):
            simulation = Simulation(draw, trace=trace, keep_trace=trace is not None)
            failure = simulation.run()
            if failure is not None and trace is None:
                simulation = Simulation(draw, keep_trace=True)
                failure = simulation.run() or failure
        return outcome_of(simulation, failure, process_time() - began)
    finally:
        gc.enable()


def outcome_of(simulation: Simulation, failure: Failure | None, seconds: float) -> RunOutcome:
    auditor, network = simulation.auditor, simulation.network.counters
    arrived = simulation.network.arrived
    for node in simulation.nodes:
        node.count_transfers()
    counters = dict(auditor.counters)
    counters.update(simulation.workload.counts)
    for (operation, done), count in auditor.committed.items():
        verdict = "" if done else " refused"
        counters[f"ops: {Operation(operation).name}{verdict}"] = count
    counters["repairs"] = sum(arrived[command] for command in REPAIRS)
    for command in Command:
        if arrived[command]:
            counters[f"frames: {command.name}"] = arrived[command]
    faults = dict(simulation.nemesis.counts)
    for node in simulation.nodes:
        for name, count in node.disk.counts.items():
            faults[name] = faults.get(name, 0) + count
    for name in ("lost", "duplicated", "evicted", "blocked", "filtered", "stale", "corrupted"):
        if getattr(network, name):
            faults[f"frames {name}"] = getattr(network, name)
    return RunOutcome(
        seed=simulation.draw.seed,
        draw=simulation.draw.line(),
        digest=f"{simulation.network.digest:016x}",
        state_digest=convergence.state_digest(auditor),
        ticks=simulation.events.now,
        events=simulation.events.executed + sum(node.ticks for node in simulation.nodes),
        wall_seconds=seconds,
        failure=failure,
        counters=counters,
        faults=faults,
    )
