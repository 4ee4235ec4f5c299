"""The clients retry without an answer, end their sessions, and pause on request."""

from borzoi.consensus.effects import Refusal
from borzoi.consensus.messages import Operation
from borzoi.simulator.draws import Draw
from borzoi.simulator.service import NodeCall
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.workload import other_content


def simulated(ticks: int, **drawn: float) -> Simulation:
    draw = Draw(seed=6, replicas=3, disturb_primary=0, think_ticks=1, **drawn)  # type: ignore[arg-type]
    simulation = Simulation(draw)
    simulation.start()
    simulation.advance(ticks)
    return simulation


def test_a_lost_answer_leads_to_another_node():
    simulation = Simulation(
        Draw(seed=6, replicas=3, clients=1, client_timeout=20, loss=0.4, disturb_primary=0)
    )
    simulation.start()
    simulation.advance(1500)
    assert simulation.workload.counts["resend"] > 0
    assert sum(simulation.workload.acknowledged) > 0


def test_a_quiet_workload_asks_for_nothing():
    simulation = Simulation(Draw(seed=6, replicas=3, clients=2, disturb_primary=0))
    simulation.workload.quiet = True
    simulation.start()
    simulation.advance(300)
    assert sum(simulation.workload.acknowledged) == 0


def test_what_is_created_is_sent_to_and_what_is_deleted_is_forgotten():
    simulation = simulated(1500, clients=4, control_share=0.4)
    done = {operation for operation, succeeded in simulation.auditor.committed if succeeded}
    assert {160, 81, 80} <= done


def test_sessions_are_ended_in_order_too():
    simulation = simulated(1000, clients=4, dead_clients=0.1)
    assert simulation.workload.counts["session ended"] > 0
    assert simulation.workload.counts["dead client"] > 0


def test_a_number_used_twice_is_executed_once():
    simulation = simulated(1500, clients=3, reused_requests=0.5)
    assert simulation.workload.counts["reused request number"] > 10
    assert simulation.auditor.counters["replies"] > 0


def test_only_a_whole_send_has_another_content():
    call = NodeCall(1, b"c" * 16, 1, 1, Operation.SEND_MESSAGES, b"short")
    assert other_content(call) == call


def test_nodes_truncate_without_a_session():
    draw = Draw(seed=6, replicas=3, clients=3, disturb_primary=0, think_ticks=1, housekeeping=0.3)
    simulation = Simulation(draw.changed(truncates=0))
    simulation.start()
    simulation.advance(1500)
    assert simulation.workload.counts["housekeeping"] > 10
    assert simulation.auditor.committed[Operation.TRUNCATE_PARTITION, True] > 0


def test_a_short_queue_turns_clients_away():
    draw = Draw(seed=6, replicas=3, clients=8, disturb_primary=0, think_ticks=1, pipeline_max=1)
    simulation = Simulation(draw.changed(request_queue_max=1, client_timeout=2000))
    told = []
    for client in simulation.workload.clients:
        take = client.receive

        def listen(source, frame, take=take):
            told.append(getattr(frame, "status", None))
            take(source, frame)

        simulation.network.receivers[client.endpoint] = listen
    simulation.start()
    simulation.advance(500)
    assert Refusal.BUSY in told
    assert sum(simulation.workload.acknowledged) > 0
