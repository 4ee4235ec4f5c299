"""Calls are answered here or by the leader, and reads only where they may be."""

from borzoi.simulator.draws import Draw
from borzoi.simulator.service import user_of
from borzoi.simulator.simulation import Simulation


def running(**changes) -> Simulation:
    draw = Draw(seed=4, replicas=3, clients=3, disturb_primary=0, think_ticks=3)
    simulation = Simulation(draw.changed(**changes))
    simulation.start()
    simulation.advance(800)
    return simulation


def test_a_request_may_take_the_way_over_another_node():
    simulation = running(forwarding=1.0)
    assert simulation.auditor.counters["requests forwarded"] > 0
    assert sum(simulation.workload.acknowledged) > 20


def test_without_forwarding_no_request_is_passed_on():
    assert running().auditor.counters["requests forwarded"] == 0


def test_reads_at_all_levels_are_granted():
    counters = running(reads=0.9).auditor.counters
    assert min(counters[f"reads: {level}"] for level in ("prefix", "lease", "linearizable")) > 0


def test_a_client_always_acts_as_the_same_user():
    assert user_of(b"\x04" + bytes(15)) == user_of(b"\x04" + bytes(15)) == 1
