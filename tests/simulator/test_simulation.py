"""One run: what it leaves behind, how it ends, and that it is a function of its draw."""

import pytest

from borzoi.consensus.effects import Leadership
from borzoi.simulator.auditor import Violation
from borzoi.simulator.draws import Draw, draw
from borzoi.simulator.simulation import Simulation, command_of, configs_for, simulate

CALM = Draw(seed=2, replicas=3, clients=2, safety_ticks=600, disturb_primary=0)


def test_a_calm_run_commits_and_converges():
    outcome = simulate(CALM)
    assert outcome.failure is None
    assert outcome.counters["commits"] > 20
    assert outcome.counters["replies"] > 10
    assert outcome.ticks > CALM.safety_ticks


def test_the_same_draw_gives_the_same_digests():
    one, other = simulate(draw(7, {"safety_ticks": 800})), simulate(draw(7, {"safety_ticks": 800}))
    assert (one.digest, one.state_digest, one.events) == (
        other.digest,
        other.state_digest,
        other.events,
    )


def test_a_failed_run_has_a_trace():
    outcome = simulate(CALM, bugs=("ack_before_fsync",))
    assert outcome.failure is not None
    assert outcome.failure.kind == "durability"
    assert any("Prepare" in line for line in outcome.failure.trace)


def test_a_trace_goes_to_its_sink():
    lines: list[str] = []
    simulate(CALM.changed(safety_ticks=100), trace=lines.append)
    assert any("is leader of view" in line for line in lines)


def test_one_node_leads():
    simulation = Simulation(CALM)
    simulation.start()
    simulation.advance(300)
    number = simulation.primary()
    assert number is not None
    leading = [node.leadership[0] is Leadership.LEADER for node in simulation.nodes]
    assert leading.count(True) == 1


def test_a_core_outside_of_which_all_is_broken_still_serves():
    simulation = Simulation(CALM.changed(replicas=5, core_all=0))
    assert simulation.run() is None
    assert len(simulation.core) == 3


def test_without_a_quorum_liveness_is_reported_as_lost():
    simulation = Simulation(CALM.changed(liveness_ticks=500))
    simulation.start()
    simulation.advance(200)
    simulation._choose_core = lambda shuffled: [0]  # type: ignore[method-assign]
    with pytest.raises(Violation, match="acknowledged"):
        simulation.liveness()


def test_commands_are_read_from_values_and_bytes():
    assert command_of(bytes(60) + b"\x07" + bytes(195)) == 7
    assert command_of(object()) == 0


def test_every_group_has_its_config():
    configs = configs_for(CALM.changed(data_groups=2), 1)
    assert [config.group for config in configs] == [0, 1, 2]
    assert {config.replica_id for config in configs} == {1}


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_is_founded_though_one_replica_dies_meanwhile(seed):
    simulation = Simulation(Draw(seed=seed, replicas=3, clients=2, genesis=2, disturb_primary=0))
    simulation.start()
    simulation.found()
    assert all(node.is_formatted for node in simulation.nodes)
    assert simulation.auditor.counters["restarts"] > 3
    simulation.advance(1500)
    assert simulation.primary() is not None


def test_an_empty_disk_beside_a_founded_cluster_rejoins_as_a_lost_one():
    simulation = Simulation(Draw(seed=1, replicas=3, clients=2, genesis=1, disturb_primary=0))
    simulation.start()
    simulation.found()
    late = simulation.nodes[0]
    late.crash()
    late.disk.wipe()
    late.unfounded = True
    late.start()
    simulation.advance(300)
    formatted = [late.is_formatted]
    simulation._replace_latecomers()
    simulation.advance(1500)
    formatted.append(late.is_formatted)
    assert formatted == [False, True]
    assert not late.is_rejoining
