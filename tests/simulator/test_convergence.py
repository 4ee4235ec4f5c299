"""In the end all replicas agree; one that does not is named."""

import pytest

from borzoi.consensus.effects import Leadership
from borzoi.consensus.messages import ZERO
from borzoi.consensus.pipeline import LOCAL, InFlight, Queued
from borzoi.consensus.timeouts import Timer
from borzoi.simulator import convergence
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.node import SimulatedNode
from borzoi.simulator.simulation import Simulation


def finished() -> Simulation:
    simulation = Simulation(
        Draw(seed=3, replicas=3, clients=3, safety_ticks=600, think_ticks=3, disturb_primary=0)
    )
    assert simulation.run() is None
    return simulation


def leader_of(simulation: Simulation) -> SimulatedNode:
    number = simulation.primary()
    assert number is not None
    return simulation.nodes[number]


def test_a_finished_run_has_converged():
    simulation = finished()
    assert convergence.converged(simulation.nodes, [0, 1, 2], simulation.auditor)
    convergence.check_final(simulation.nodes, [0, 1, 2], simulation.auditor)


def test_a_node_that_is_down_has_not():
    simulation = finished()
    simulation.nodes[1].crash()
    assert not convergence.converged(simulation.nodes, [0, 1, 2], simulation.auditor)
    assert "replica 1 is down" in convergence.stuck(
        simulation.nodes, [0, 1, 2], simulation.workload
    )


def test_a_message_that_changed_is_noticed():
    simulation = finished()
    machine = simulation.nodes[2].machines[1]
    assert isinstance(machine, DataMachine)
    partition = next(one for one in machine.partitions.values() if one.segments)
    partition.segments[0].log[70] ^= 1
    with pytest.raises(Violation, match="checksum") as caught:
        convergence.check_final(simulation.nodes, [0, 1, 2], simulation.auditor)
    assert caught.value.kind == "log contents"


def test_a_record_that_is_missing_is_noticed():
    simulation = finished()
    node = simulation.nodes[0]
    op = node.replicas[1].op
    del node.disk.volumes[1].found[node.replicas[1].canon[op].checksum]
    with pytest.raises(Violation, match=f"no record of op {op}"):
        convergence.check_final(simulation.nodes, [0, 1, 2], simulation.auditor)


def test_growth_without_bound_is_noticed():
    simulation = finished()
    simulation.nodes[0].disk.volumes[0].worst = 10_000
    with pytest.raises(Violation, match="queued"):
        convergence.check_resources(simulation.nodes, simulation.draw)


@pytest.mark.parametrize("limit", ["client_table_max", "pipeline_max", "request_queue_max"])
def test_what_a_primary_keeps_for_its_clients_is_bounded(limit):
    simulation = finished()
    leader = leader_of(simulation)
    if limit != "client_table_max":
        # In the end nothing is on its way any more.
        replica = leader.replicas[0]
        pipeline = replica.pipeline
        pipeline.entries.append(InFlight(replica.canon[replica.op], 0, None, 0, 0))
        pipeline.queue.append(Queued(ZERO, 0, 0, b"", ZERO, 0, 0, LOCAL))
    convergence.check_bounds(leader, leader.replicas[0], simulation.draw)
    draw = simulation.draw.changed(**{limit: 0})
    with pytest.raises(Violation, match="at most 0"):
        convergence.check_bounds(leader, leader.replicas[0], draw)


def test_a_leader_that_its_node_does_not_know_of_is_noticed():
    simulation = finished()
    leader = leader_of(simulation)
    leader.leadership[0] = Leadership.FOLLOWER
    with pytest.raises(Violation, match="was not told"):
        convergence.check_resources(simulation.nodes, simulation.draw)


def test_standing_still_is_right_only_where_something_rotted():
    simulation = finished()
    assert not convergence.is_undecidable(simulation.nodes, [0, 1, 2])
    simulation.nodes[0].replicas[0].undecidable = 2
    assert not convergence.is_undecidable(simulation.nodes, [0, 1, 2])
    record = next(one for one in simulation.nodes[1].disk.volumes[0].records if one.header.op == 2)
    record.body_bad = True
    assert convergence.is_undecidable(simulation.nodes, [0, 1, 2])


def test_metadata_that_differs_is_noticed():
    simulation = finished()
    machine = simulation.nodes[1].machines[0]
    assert isinstance(machine, ControlMachine)
    machine.state.streams.in_order()[0].created_at += 1
    with pytest.raises(Violation, match="metadata differs"):
        convergence.check_final(simulation.nodes, [0, 1, 2], simulation.auditor)


def test_a_wait_that_nothing_can_end_is_noticed():
    simulation = finished()
    replica = simulation.nodes[simulation.primary() or 0].replicas[0]
    convergence.check_timers(0, replica)
    replica.timers.stop(Timer.COMMIT_MESSAGE)
    with pytest.raises(Violation, match="without COMMIT_MESSAGE"):
        convergence.check_timers(0, replica)
    replica.timers.next_deadline = replica.timers.now
    with pytest.raises(Violation, match="has not fired"):
        convergence.check_timers(0, replica)
