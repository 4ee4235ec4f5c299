"""Scripted scenarios: exact trouble where random trouble would need too long.

Each takes the names of the bugs to plant and returns what went wrong; without a bug nothing may.
They are short, and each says which rule it holds the core to.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from msgspec.structs import replace

from borzoi.consensus import superblock as superblocks
from borzoi.consensus.effects import Fatal
from borzoi.consensus.frames import checksum, root
from borzoi.consensus.messages import HEADER_BYTES, Command
from borzoi.consensus.recovery import Restored
from borzoi.consensus.replica import Replica
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine
from borzoi.simulator.network import NetworkFaults
from borzoi.simulator.outcome import Failure
from borzoi.simulator.planting import plant
from borzoi.simulator.service import ReadCall
from borzoi.simulator.simulation import Simulation

CALM: Final = Draw(
    seed=1, replicas=3, clients=2, think_ticks=10, disturb_primary=0, delay_mean=0.0, delay_min=1
)
# Eight clients get about 1,400 answers in 30 s of reordering, and 400 when early prepares are lost.
THROUGHPUT_WITH_REORDERING: Final = 800
SETTLED_TICKS: Final = 150


def scripted(
    draw: Draw, bugs: tuple[str, ...], play: Callable[[Simulation], None]
) -> Failure | None:
    """Starts a cluster without a nemesis and lets `play` make the trouble."""
    with plant(*bugs):
        simulation = Simulation(draw)
        try:
            simulation.start()
            play(simulation)
        except Violation as violation:
            return Failure(violation.kind, violation.message, simulation.events.now)
    return None


def led(simulation: Simulation, ticks: int = 600) -> int:
    """Waits for a leader and names it."""
    for _ in range(ticks):
        simulation.step()
        # Not the first one seen: at the start there may be two elections in a row.
        number = simulation.primary()
        if number is not None and simulation.events.now > SETTLED_TICKS:
            return number
    raise Violation("liveness", f"no leader within {ticks} ticks")


def newest_view(simulation: Simulation) -> int:
    return max(node.replicas[0].view for node in simulation.nodes if node.is_up)


def acknowledged(simulation: Simulation) -> int:
    return sum(simulation.workload.acknowledged)


def half_deaf_replica(bugs: tuple[str, ...]) -> Failure | None:
    """V2: one replica that does not hear the leader cannot stop a cluster that works."""

    def play(simulation: Simulation) -> None:
        leader = led(simulation)
        simulation.advance(100)
        view = newest_view(simulation)
        simulation.network.cut(leader, (leader + 1) % 3)
        simulation.advance(1500)
        if newest_view(simulation) != view:
            raise Violation("liveness", f"one deaf replica moved view {view} on")

    return scripted(CALM, bugs, play)


def replayed_heartbeats(bugs: tuple[str, ...]) -> Failure | None:
    """N8: frames of a dead leader that arrive again and again do not keep it alive."""

    def play(simulation: Simulation) -> None:
        leader = led(simulation)
        simulation.advance(100)
        kept: list[tuple[int, int, object]] = []
        carry = simulation.network.send

        def remember(source: int, target: int, frame: object) -> None:
            command = frame[0].command if type(frame) is tuple else 0
            if source == leader and command == Command.COMMIT:
                kept.append((source, target, frame))
            carry(source, target, frame)

        simulation.network.send = remember  # type: ignore[method-assign]
        simulation.advance(100)
        simulation.network.send = carry  # type: ignore[method-assign]
        simulation.nodes[leader].crash()
        view = simulation.auditor.view
        for _ in range(60):
            for source, target, frame in kept[-4:]:
                carry(source, target, frame)
            simulation.advance(10)
        if simulation.auditor.view == view:
            raise Violation("liveness", "replayed heartbeats kept a dead leader in office")

    return scripted(CALM.changed(datagrams=1), bugs, play)


def genesis_without_everyone(bugs: tuple[str, ...]) -> Failure | None:
    """G1: two empty disks do not found a cluster while the third is away."""

    def play(simulation: Simulation) -> None:
        simulation.advance(1500)
        if simulation.primary() is not None:
            raise Violation("genesis", "a majority of empty disks elected a leader")
        simulation.nodes[2].start()
        led(simulation, 1500)

    simulation_draw = CALM.changed(genesis=1)
    return scripted(simulation_draw, bugs, play)


def reordered_prepares(bugs: tuple[str, ...]) -> Failure | None:
    """N4: prepares that overtake each other are kept, not dropped and sent again."""

    def play(simulation: Simulation) -> None:
        led(simulation)
        simulation.network.faults = NetworkFaults(delay_mean=4.0, capacity=1 << 20)
        before = acknowledged(simulation)
        simulation.advance(3000)
        done = acknowledged(simulation) - before
        if done < THROUGHPUT_WITH_REORDERING:
            raise Violation("liveness", f"{done} requests in 30 s of reordering")

    return scripted(
        CALM.changed(clients=8, think_ticks=1, pipeline_max=16, fast_timeouts=0), bugs, play
    )


def lease_of_a_cut_off_leader(bugs: tuple[str, ...]) -> Failure | None:
    """L1: a leader without answers stops reading before another one may write."""

    def play(simulation: Simulation) -> None:
        leader = led(simulation)
        # With nothing in its pipeline it has no other reason to doubt itself (T1).
        simulation.workload.quiet = True
        simulation.advance(100)
        everyone = range(simulation.network.endpoints)
        simulation.network.split([leader], [number for number in everyone if number != leader])
        simulation.workload.quiet = False
        simulation.workload.wake()
        history, client = simulation.auditor.groups[0], simulation.draw.replicas
        for number in range(300):
            simulation.advance(5)
            asked = ReadCall(0, "lease", number, history.replied_op)
            simulation.nodes[leader].intake.receive(client, asked)
        if simulation.primary() == leader or history.replied_op == 0:
            raise Violation("liveness", "no replica took over from a leader that is cut off")

    return scripted(CALM.changed(clients=4, control_share=1.0), bugs, play)


def foreign_disks(bugs: tuple[str, ...]) -> Failure | None:
    """G3, G4: an unreadable disk, or one of another replica, is refused with a reason."""

    def play(simulation: Simulation) -> None:
        simulation.advance(600)
        node = simulation.nodes[0]
        config, mine = node.configs[0], node.disk.volumes[0].newest()
        node.crash()
        if mine is None or not mine.checkpoint_op:
            raise Violation("recovery", "there is no checkpoint after six seconds")
        image = superblocks.encode(mine)
        sealed = superblocks.RECORD.size + len(mine.suffix) * HEADER_BYTES
        newer = image[16:24] + b"\x63" + image[25:sealed]
        newer = checksum(newer) + newer
        kept = node.disk.volumes[0].checkpoints[mine.checkpoint_op]
        for found, checkpoint, reason in (
            (replace(mine, cluster=bytes(16)), kept, "cluster"),
            (replace(mine, replica_id=1), kept, "replica_id"),
            (superblocks.decode(b"\x01" * len(image)), None, "no copy"),
            (superblocks.decode(newer), None, "format"),
            (mine, None, "damaged"),
            # Files of another day, put back from a backup.
            (replace(mine, checkpoint_checksum=bytes(16)), kept, "damaged"),
        ):
            machine = ControlMachine()
            restored = Restored(found, checkpoint=checkpoint, incarnation=bytes(16))
            replica = Replica(config, machine, Random(1), restored)
            replica.tick(1000)
            replica.on_frame(root(config.cluster, 0), b"")
            told = [effect for effect in replica.take_effects() if isinstance(effect, Fatal)]
            if len(told) != 1 or reason not in told[0].reason:
                raise Violation("recovery", f"a disk was not refused for its {reason}: {told}")

    return scripted(CALM.changed(checkpoint_ops=16), bugs, play)
