"""The clients ask again where no answer came, end their sessions, and rest when told to."""

from borzoi.simulator.draws import Draw
from borzoi.simulator.simulation import Simulation


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
    simulation = Simulation(
        Draw(seed=6, replicas=3, clients=4, disturb_primary=0, think_ticks=1, control_share=0.4)
    )
    simulation.start()
    simulation.advance(1500)
    done = {operation for operation, succeeded in simulation.auditor.committed if succeeded}
    assert {160, 81, 80} <= done


def test_sessions_are_ended_in_order_too():
    simulation = Simulation(
        Draw(seed=6, replicas=3, clients=4, disturb_primary=0, think_ticks=1, dead_clients=0.1)
    )
    simulation.start()
    simulation.advance(1000)
    assert simulation.workload.counts["session ended"] > 0
    assert simulation.workload.counts["dead client"] > 0
