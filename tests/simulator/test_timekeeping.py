"""A node is called when a timer of its own clock is due, and not before."""

import pytest

from borzoi.simulator.clocks import RATE_UNIT
from borzoi.simulator.draws import Draw
from borzoi.simulator.node import SimulatedNode
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.timekeeping import NEVER

CALM = Draw(seed=4, replicas=3, clients=2, safety_ticks=600, disturb_primary=0, think_ticks=5)


def running(ticks: int = 300) -> Simulation:
    simulation = Simulation(CALM)
    simulation.start()
    simulation.advance(ticks)
    return simulation


def ticks_of_its_own(node: SimulatedNode) -> int:
    """The ticks that the replicas have had, and those still due."""
    node.timekeeper.account()
    return node.replicas[0].timers.now + node.timekeeper.owed


def test_a_paused_node_reads_its_frames_before_its_clock():
    simulation = running()
    node = simulation.nodes[0 if simulation.primary() != 0 else 1]
    node.pause(50)
    ticks = node.ticks
    simulation.advance(40)
    assert node.ticks == ticks
    simulation.advance(20)
    assert node.ticks > ticks
    assert node.paused_until == 0


@pytest.mark.parametrize("rate", [950, RATE_UNIT, 1050])
def test_replicas_get_the_ticks_of_their_nodes_own_clock(rate):
    simulation = running()
    node = simulation.nodes[1]
    node.timekeeper.set_rate(rate)
    before = ticks_of_its_own(node)
    simulation.advance(1000)
    assert ticks_of_its_own(node) - before == rate


def test_a_node_sleeps_until_its_first_timer():
    node = running().nodes[1]
    timekeeper = node.timekeeper
    timekeeper.rest()
    first = min(replica.timers.next_deadline for replica in node.replicas)
    assert timekeeper.deadline == first
    left = first - node.replicas[0].timers.now - timekeeper.owed
    assert timekeeper.wake_at == timekeeper.seen + left


def test_a_node_with_a_slow_processor_is_called_every_tick():
    node = running().nodes[1]
    node.timekeeper.set_pace(1)
    node.timekeeper.rest()
    assert node.timekeeper.wake_at == node.timekeeper.seen + 1


def test_a_node_that_is_down_is_never_called():
    node = running().nodes[1]
    node.crash()
    node.timekeeper.tick()
    assert node.timekeeper.wake_at == NEVER


def test_time_that_is_skipped_does_not_touch_what_was_saved_up():
    simulation = running()
    timekeeper = simulation.nodes[1].timekeeper
    timekeeper.account()
    timekeeper.owed = 3
    simulation.events.now += 50
    timekeeper.skip()
    assert timekeeper.owed == 3
    simulation.events.now += 50
    timekeeper.account()
    assert timekeeper.owed == 53


def test_a_healed_node_has_the_right_time_and_an_idle_processor():
    simulation = running()
    node = simulation.nodes[1]
    node.timekeeper.set_rate(1050)
    node.timekeeper.set_pace(1)
    simulation.advance(100)
    node.timekeeper.heal()
    assert node.intake.pace == 0
    before = ticks_of_its_own(node)
    simulation.advance(100)
    assert ticks_of_its_own(node) - before == 100
