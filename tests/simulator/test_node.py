"""A node: executes effects, dies between them, sleeps, and comes back from its disk."""

from borzoi.simulator.draws import Draw
from borzoi.simulator.node import SimulatedNode
from borzoi.simulator.simulation import Simulation

CALM = Draw(seed=4, replicas=3, clients=2, safety_ticks=600, disturb_primary=0, think_ticks=5)


def running(ticks: int = 300, **changes) -> Simulation:
    simulation = Simulation(CALM.changed(**changes))
    simulation.start()
    simulation.advance(ticks)
    return simulation


def with_a_wiped_node() -> tuple[Simulation, SimulatedNode]:
    simulation = running()
    node = simulation.nodes[2]
    node.crash()
    node.wipe()
    node.start()
    return simulation, node


def test_a_crashed_node_comes_back_with_what_its_disk_kept():
    simulation = running()
    node = simulation.nodes[2]
    before = node.replicas[0].view
    node.crash()
    assert not node.is_up
    simulation.advance(50)
    node.start()
    simulation.advance(200)
    assert node.replicas[0].view >= before
    assert node.replicas[0].commit_min > 0


def test_an_armed_crash_strikes_between_two_effects():
    simulation = running()
    node = simulation.nodes[simulation.primary() or 0]
    node.arm_crash(3)
    simulation.advance(60)
    assert simulation.nemesis.counts["crash inside an input"] == 1


def test_a_wiped_node_rejoins_and_says_so():
    simulation, node = with_a_wiped_node()
    rejoining = [node.is_rejoining]
    simulation.advance(800)
    rejoining.append(node.is_rejoining)
    assert rejoining == [True, False]
    assert node.replicas[0].commit_min > 0


def test_a_node_rejoins_until_its_disk_knows_that_it_is_back():
    """Otherwise another disk might be lost, and a crash would cost this one its voice again."""
    simulation, node = with_a_wiped_node()
    node.disk.slowness = 200
    for _ in range(4000):
        simulation.advance(1)
        if not any(replica.wiped for replica in node.replicas):
            break
    assert any(replica.durable_wiped for replica in node.replicas)
    assert node.is_rejoining


def test_a_disk_error_ends_the_process_and_it_is_started_again():
    simulation = running()
    node = simulation.nodes[1]
    node.disk.fail_next_sync("disk full")
    lives = node.life
    simulation.advance(600)
    assert node.disk.counts["disk full"] == 1
    assert node.life == lives + 1


def test_full_fidelity_carries_bytes():
    values, encoded = running(full=0), running(full=1)
    assert encoded.network.digest == values.network.digest
    record = encoded.nodes[0].disk.volumes[0].records[0]
    assert record.image is not None
    assert record.image[:16] == record.header.checksum
