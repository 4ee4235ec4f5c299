"""Drift moves ticks, skew and jumps move the wall clock only."""

import pytest

from borzoi.simulator.clocks import EPOCH_US, NodeClock
from borzoi.simulator.events import TICK_US


@pytest.mark.parametrize(("rate", "expected"), [(1000, 1000), (1050, 1050), (950, 950)])
def test_a_node_gets_as_many_ticks_as_its_rate_says(rate, expected):
    clock = NodeClock(rate)
    assert sum(clock.ticks_due() for _ in range(1000)) == expected


def test_skew_and_jumps_show_on_the_wall():
    clock = NodeClock(offset_us=-500)
    assert clock.wall_us(10) == EPOCH_US + 10 * TICK_US - 500
    clock.jump(2000)
    assert clock.wall_us(10) == EPOCH_US + 10 * TICK_US + 1500


def test_a_healed_clock_is_right_again():
    clock = NodeClock(1050, 30_000_000)
    clock.ticks_due()
    clock.heal(100)
    assert clock.wall_us(100) == EPOCH_US + 100 * TICK_US
    assert clock.wall_us(101) == EPOCH_US + 101 * TICK_US
    assert [clock.ticks_due() for _ in range(5)] == [1] * 5
