"""A seed stands for one draw, and overrides shift nothing else."""

import pytest

from borzoi.simulator.draws import REPLICAS, Draw, UnknownSetting, draw, parse_settings


def test_a_seed_always_stands_for_the_same_draw():
    assert draw(41) == draw(41)
    assert draw(41) != draw(42)


def test_overrides_change_only_what_they_name():
    chosen = draw(41, {"replicas": 5, "loss": 0.25})
    assert chosen.changed(replicas=draw(41).replicas, loss=draw(41).loss) == draw(41)
    assert (chosen.replicas, chosen.loss) == (5, 0.25)


def test_the_swarm_switches_every_kind_on_and_off():
    draws = [draw(seed) for seed in range(300)]
    for kind in (
        "loss", "duplication", "clogging", "partition_every", "crash_every", "pause_every",
        "rot_every", "wipe_every", "sync_error_every", "disk_full_every", "clock_skew_us",
        "clock_drift", "clock_jump_every", "slow_replica", "reads", "zombies", "deletes",
        "rot_deep", "handover_anyone", "housekeeping", "reused_requests", "genesis",
    ):  # fmt: skip
        chosen = {bool(getattr(one, kind)) for one in draws}
        assert chosen == {True, False}, kind
    assert {one.replicas for one in draws} == set(REPLICAS)
    assert {one.genesis for one in draws} == {0, 1, 2}
    assert {one.request_queue_max for one in draws} == {1, 2, 4, 64}
    # A disk that is hundreds of writes behind, and transfers that take longer than views.
    assert {one.slow_factor for one in draws} >= {30, 300}


def test_wipes_and_rot_are_never_drawn_together():
    assert not any(one.wipe_every and one.rot_every for one in map(draw, range(500)))
    assert all(one.replicas >= 3 for one in map(draw, range(500)) if one.wipe_every)


def test_the_line_can_be_given_back_as_settings():
    chosen = draw(17)
    words = chosen.line().split()
    assert Draw(**parse_settings(tuple(words))) == chosen  # type: ignore[arg-type]


@pytest.mark.parametrize("setting", ["replicas", "colour=3", "replicas=three", "loss=lots"])
def test_a_setting_that_makes_no_sense_is_refused(setting):
    with pytest.raises(UnknownSetting):
        parse_settings((setting,))


def test_settings_have_the_type_of_their_field():
    parsed = parse_settings(("replicas=5", "loss=0.5", "loss=1"))
    assert parsed == {"replicas": 5, "loss": 1.0}
    assert isinstance(parsed["loss"], float)


def test_the_network_part_is_handed_on():
    faults = draw(3, {"loss": 0.2, "fifo": 1, "link_capacity": 9}).network()
    assert (faults.loss, faults.fifo, faults.capacity) == (0.2, True, 9)
