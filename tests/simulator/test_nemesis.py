"""Every kind of fault occurs when drawn, and none after the end of the safety phase."""

import pytest

from borzoi.simulator.draws import Draw
from borzoi.simulator.simulation import Simulation

CALM = Draw(seed=8, replicas=3, clients=2, disturb_primary=0, think_ticks=4)


def troubled(ticks: int = 1500, **changes) -> Simulation:
    simulation = Simulation(CALM.changed(**changes))
    simulation.start()
    simulation.nemesis.begin()
    simulation.advance(ticks)
    return simulation


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"crash_every": 100}, "crash"),
        ({"crash_every": 100, "crash_many": 1}, "crash of several"),
        ({"crash_every": 60, "crash_inside_input": 1}, "crash inside an input"),
        ({"pause_every": 100}, "pause"),
        ({"partition_every": 100}, "partition"),
        ({"partition_every": 50, "one_way": 1}, "one-way partition"),
        ({"partition_every": 50, "command_filters": 1}, "command filter"),
        ({"clogging": 0.01, "clog_ticks_mean": 20}, "clog"),
        ({"rot_every": 20, "crash_every": 400}, "bit rot: journal body"),
        ({"rot_every": 5, "rot_deep": 1}, "bit rot: journal header and its copy"),
        ({"handover_every": 100}, "hand-over"),
        ({"wipe_every": 200}, "wiped disk"),
        ({"clock_jump_every": 50}, "clock jump"),
        ({"clock_skew_us": 1000}, "clock skew"),
        ({"clock_drift": 20}, "clock drift"),
        ({"slow_replica": 1}, "slow replica"),
        ({"disturb_primary": 1, "safety_ticks": 1200}, "primary disturbed"),
    ],
)
def test_what_is_drawn_strikes(changes, kind):
    assert troubled(**changes).nemesis.counts[kind] > 0


def test_anyone_may_be_told_to_hand_over():
    simulation = troubled(handover_every=50, handover_anyone=1)
    assert simulation.nemesis.counts["hand-over"] > 10
    assert sum(simulation.workload.acknowledged) > 0


def test_disk_errors_stop_a_process():
    simulation = troubled(sync_error_every=100, disk_full_every=100, restart_max=20)
    counts = sum(
        (node.disk.counts for node in simulation.nodes),
        start=type(simulation.nodes[0].disk.counts)(),
    )
    assert counts["fsync error"]
    assert counts["disk full"]


def test_a_resting_nemesis_strikes_no_more():
    simulation = troubled(crash_every=50)
    simulation.nemesis.rest()
    before = dict(simulation.nemesis.counts)
    simulation.advance(1000)
    assert dict(simulation.nemesis.counts) == before


def test_one_disk_at_a_time_is_lost():
    simulation = Simulation(CALM)
    simulation.start()
    simulation.advance(200)
    simulation.nodes[0].rejoining = True
    simulation.nodes[0].crash()
    simulation.nemesis.wipe()
    assert simulation.nemesis.counts["wiped disk"] == 0
