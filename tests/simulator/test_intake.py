"""What comes from outside is taken at the pace of the processor, or refused."""

import pytest

from borzoi.consensus.messages import Command, Ping
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.intake import BACKLOG_MAX
from borzoi.simulator.network import Corrupted
from borzoi.simulator.node import SimulatedNode
from borzoi.simulator.simulation import Simulation
from borzoi.simulator.strangers import Foreign, frame

CALM = Draw(seed=4, replicas=3, clients=2, safety_ticks=600, disturb_primary=0, think_ticks=5)


def running_node(**changes) -> SimulatedNode:
    simulation = Simulation(CALM.changed(**changes))
    simulation.start()
    simulation.advance(100)
    return simulation.nodes[2]


def ping(node: SimulatedNode) -> bytes:
    return frame(Ping, node.configs[0].cluster, Command.PING)


def foreign(number: int) -> Foreign:
    return Foreign(b"", f"nothing in it, number {number}")


def refused(node: SimulatedNode) -> list[str]:
    prefix = "frame refused: "
    return [key.removeprefix(prefix) for key in node.around.auditor.counters if prefix in key]


def test_a_slow_processor_takes_the_oldest_frames_first_and_so_many_a_tick():
    node = running_node()
    frames = [foreign(number) for number in range(5)]
    node.intake.pace = 2
    for one in frames:
        node.intake.receive(0, one)
    assert refused(node) == [one.what for one in frames[:2]]
    node.intake.work_off()
    assert refused(node) == [one.what for one in frames[:4]]
    assert [one for _, one in node.intake.backlog] == frames[4:]


def test_a_processor_that_is_fast_again_takes_all_that_waited():
    node = running_node()
    node.intake.pace = 1
    for number in range(5):
        node.intake.receive(0, foreign(number))
    node.intake.pace = 0
    node.intake.work_off()
    assert len(refused(node)) == 5
    assert not node.intake.backlog


def test_a_socket_takes_only_so_much():
    node = running_node()
    node.intake.pace = 1
    for number in range(BACKLOG_MAX + 10):
        node.intake.receive(0, foreign(number))
    assert len(node.intake.backlog) == BACKLOG_MAX


def test_what_waits_dies_with_the_process_and_a_dead_one_takes_nothing():
    node = running_node()
    node.intake.pace = 1
    for number in range(3):
        node.intake.receive(0, foreign(number))
    node.crash()
    assert not node.intake.backlog
    node.intake.receive(0, foreign(9))
    assert refused(node) == [foreign(0).what]
    assert not node.intake.backlog


def test_a_frame_with_a_wrong_bit_is_refused_wherever_the_bit_is():
    node = running_node(full=1)
    for spot in (0.0, 0.2, 0.5, 0.99):
        node.intake.receive(0, Corrupted(ping(node), spot))
    assert node.around.auditor.counters["frame refused: a wrong bit"] == 4


def test_a_frame_that_should_have_been_refused_is_an_objection():
    node = running_node()
    with pytest.raises(Violation, match="takes a frame with a lie"):
        node.intake.receive(0, Foreign(ping(node), "a lie"))


def test_a_stopped_process_takes_frames_and_completions_when_it_goes_on():
    simulation = Simulation(CALM)
    simulation.start()
    simulation.advance(100)
    node = simulation.nodes[2]
    node.disk.slowness = 5
    while not node.disk.volumes[0].unsynced:
        simulation.advance(1)
    node.pause(40)
    node.intake.receive(0, foreign(1))
    written = node.replicas[0].commit_min
    simulation.advance(39)
    assert not node.disk.volumes[0].unsynced
    assert refused(node) == []
    assert node.replicas[0].commit_min == written
    simulation.advance(61)
    assert refused(node) == [foreign(1).what]
    assert node.replicas[0].commit_min > written
