import asyncio
import os

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


async def callbacks_in(turns: int, made: BusyPoll, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the loop was kept awake in this many of its turns."""
    yields = 0

    def count() -> None:
        nonlocal yields
        yields += 1

    monkeypatch.setattr(os, "sched_yield", count)
    for _ in range(turns):
        await asyncio.sleep(0)
    return yields


async def test_the_loop_stays_awake_for_a_moment_and_gives_way_meanwhile(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BusyPoll(asyncio.get_running_loop())
    assert await callbacks_in(5, made, monkeypatch) == 0
    made.touch(clock.now)
    made.touch(clock.now)
    assert await callbacks_in(10, made, monkeypatch) == 10
    clock.now += busy_poll.AWAKE_SECONDS / 2
    made.touch(clock.now)
    clock.now += busy_poll.AWAKE_SECONDS * 0.75
    assert await callbacks_in(10, made, monkeypatch) == 10
    clock.now += busy_poll.AWAKE_SECONDS
    assert await callbacks_in(10, made, monkeypatch) == 0


async def test_it_stays_awake_longer_while_a_client_reads_a_large_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BusyPoll(asyncio.get_running_loop())
    made.expect_reading()
    made.touch(clock.now)
    assert await callbacks_in(3, made, monkeypatch) == 3
    clock.now += busy_poll.AWAKE_SECONDS + busy_poll.READING_SECONDS / 2
    assert await callbacks_in(3, made, monkeypatch) == 3
    # The answer to the next request is a small one.
    made.touch(clock.now)
    assert await callbacks_in(3, made, monkeypatch) == 3
    clock.now += busy_poll.AWAKE_SECONDS
    assert await callbacks_in(3, made, monkeypatch) == 0


async def test_it_wakes_up_again_after_it_slept(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BusyPoll(asyncio.get_running_loop())
    for _ in range(2):
        made.touch(clock.now)
        assert await callbacks_in(3, made, monkeypatch) == 3
        clock.now += 1
        assert await callbacks_in(3, made, monkeypatch) == 0


async def test_a_single_processor_belongs_to_who_has_work(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    made = BusyPoll(asyncio.get_running_loop())
    made.touch(clock.now)
    assert await callbacks_in(3, made, monkeypatch) == 0


async def test_a_processor_that_somebody_else_wants_is_left_alone_for_a_while(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BusyPoll(asyncio.get_running_loop())

    def give_way() -> None:
        clock.now += 2 * busy_poll.ALONE_SECONDS

    monkeypatch.setattr(os, "sched_yield", give_way)
    made.touch(clock.now)
    await asyncio.sleep(0)
    made.touch(clock.now)
    assert await callbacks_in(5, made, monkeypatch) == 0
    clock.now += busy_poll.AWAY_SECONDS
    made.touch(clock.now)
    assert await callbacks_in(5, made, monkeypatch) == 5


async def test_it_rests_while_the_answer_is_made_elsewhere(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = BusyPoll(asyncio.get_running_loop())
    made.touch(clock.now)
    assert await callbacks_in(3, made, monkeypatch) == 3
    made.rest()
    assert await callbacks_in(10, made, monkeypatch) == 0
    made.touch(clock.now)
    assert await callbacks_in(3, made, monkeypatch) == 3
