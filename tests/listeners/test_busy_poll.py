import asyncio
import os
from unittest.mock import patch

import pytest

from borzoi.listeners import busy_poll
from borzoi.listeners.busy_poll import BusyPoll


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(busy_poll, "monotonic", made)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return made


@pytest.fixture
async def made(clock: Clock) -> BusyPoll:
    return BusyPoll(asyncio.get_running_loop())


async def callbacks_in(turns: int) -> int:
    """How often the loop is kept awake in this many of its turns."""
    with patch.object(os, "sched_yield") as yields:
        for _ in range(turns):
            await asyncio.sleep(0)
    return int(yields.call_count)


async def test_the_loop_stays_awake_for_a_moment_and_gives_way_meanwhile(
    clock: Clock, made: BusyPoll
) -> None:
    assert await callbacks_in(5) == 0
    made.touch(clock.now)
    made.touch(clock.now)
    assert await callbacks_in(10) == 10
    clock.now += busy_poll.AWAKE_SECONDS / 2
    made.touch(clock.now)
    clock.now += busy_poll.AWAKE_SECONDS * 0.75
    assert await callbacks_in(10) == 10
    clock.now += busy_poll.AWAKE_SECONDS
    assert await callbacks_in(10) == 0


async def test_it_stays_awake_longer_while_a_client_reads_a_large_answer(
    clock: Clock, made: BusyPoll
) -> None:
    made.expect_reading()
    made.touch(clock.now)
    assert await callbacks_in(3) == 3
    clock.now += busy_poll.AWAKE_SECONDS + busy_poll.READING_SECONDS / 2
    assert await callbacks_in(3) == 3
    # The answer to the next request is a small one.
    made.touch(clock.now)
    assert await callbacks_in(3) == 3
    clock.now += busy_poll.AWAKE_SECONDS
    assert await callbacks_in(3) == 0


async def test_it_wakes_up_again_after_it_slept(clock: Clock, made: BusyPoll) -> None:
    for _ in range(2):
        made.touch(clock.now)
        assert await callbacks_in(3) == 3
        clock.now += 1
        assert await callbacks_in(3) == 0


async def test_a_single_processor_belongs_to_who_has_work(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    made = BusyPoll(asyncio.get_running_loop())
    made.touch(clock.now)
    assert await callbacks_in(3) == 0


async def yields_before_it_sleeps(
    made: BusyPoll, clock: Clock, monkeypatch: pytest.MonkeyPatch, taken: list[float]
) -> int:
    """How often it gives way until it blocks, when that takes so long, over and over."""
    yields = 0

    def give_way() -> None:
        nonlocal yields
        clock.now += taken[yields % len(taken)]
        yields += 1
        made.is_touched = True  # requests keep coming

    monkeypatch.setattr(os, "sched_yield", give_way)
    made.touch(clock.now)
    while made.awake and yields < 1000:
        await asyncio.sleep(0)
    return yields


ALONE = busy_poll.ALONE_SECONDS / 2
SHORT = 2 * busy_poll.ALONE_SECONDS
LONG = 2 * busy_poll.LONG_SECONDS


@pytest.mark.parametrize(
    ("taken", "yields"),
    [
        ([LONG], 2),
        ([SHORT], 8),
        # A client on the same processor.
        ([ALONE, SHORT], 18),
        ([ALONE, ALONE, ALONE, SHORT], 52),
    ],
)
async def test_a_processor_that_somebody_else_wants_is_left_alone_for_a_while(
    clock: Clock,
    made: BusyPoll,
    monkeypatch: pytest.MonkeyPatch,
    taken: list[float],
    yields: int,
) -> None:
    assert await yields_before_it_sleeps(made, clock, monkeypatch, taken) == yields
    made.touch(clock.now)
    assert await callbacks_in(5) == 0
    clock.now += busy_poll.AWAY_SECONDS
    made.touch(clock.now)
    assert await callbacks_in(5) == 5


async def test_who_still_wants_it_afterwards_is_noticed_sooner(
    clock: Clock, made: BusyPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    for taken, expected in (([LONG], 2), ([LONG], 1), ([SHORT], 1), ([ALONE, LONG], 2)):
        assert await yields_before_it_sleeps(made, clock, monkeypatch, taken) == expected
        clock.now += busy_poll.AWAY_SECONDS


@pytest.mark.parametrize("taken", [[ALONE], [ALONE] * 32 + [LONG], [ALONE] * 8 + [SHORT]])
async def test_work_of_the_kernel_now_and_then_is_no_competition(
    clock: Clock, made: BusyPoll, monkeypatch: pytest.MonkeyPatch, taken: list[float]
) -> None:
    assert await yields_before_it_sleeps(made, clock, monkeypatch, taken) == 1000


async def test_it_rests_while_the_answer_is_made_elsewhere(clock: Clock, made: BusyPoll) -> None:
    made.touch(clock.now)
    assert await callbacks_in(3) == 3
    made.rest()
    assert await callbacks_in(10) == 0
    made.touch(clock.now)
    assert await callbacks_in(3) == 3
