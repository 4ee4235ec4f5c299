"""Effects are carried out in order and watched while they are."""

import pytest

from borzoi.consensus import effects as fx
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw
from borzoi.simulator.outputs import Outputs
from borzoi.simulator.simulation import Simulation


def running() -> Simulation:
    simulation = Simulation(
        Draw(seed=4, replicas=3, clients=2, disturb_primary=0, think_ticks=3, checkpoint_ops=16)
    )
    simulation.start()
    simulation.advance(800)
    return simulation


def outputs(simulation: Simulation, number: int = 0) -> Outputs:
    node = simulation.nodes[number]
    return Outputs(node, node.around, node.service)


def test_every_effect_of_the_core_has_a_handler():
    handlers = outputs(running()).handlers
    assert set(fx.Effect.__args__) == set(handlers)


def test_recycling_a_journal_no_checkpoint_covers_is_noticed():
    with pytest.raises(Violation, match="recycles"):
        outputs(running()).handlers[fx.TruncateJournal](0, fx.TruncateJournal(10**6))


def test_a_fatal_effect_is_a_violation():
    with pytest.raises(Violation, match="enough"):
        outputs(running()).handlers[fx.Fatal](0, fx.Fatal("enough"))


def test_checkpoints_are_written_and_the_old_ones_dropped():
    simulation = running()
    assert simulation.auditor.counters["checkpoints"] > 3
    for node in simulation.nodes:
        assert all(len(volume.checkpoints) <= 3 for volume in node.disk.volumes)
