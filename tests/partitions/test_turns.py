"""The line of connections that have more to do than one turn allows."""

import asyncio
import logging

import pytest

from borzoi.partitions.turns import TURN_SECONDS, Turns, Work, turns


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_turn_takes_from_the_line_until_its_time_is_over() -> None:
    clock, done = Clock(), []
    line = Turns(clock)

    def share(number: int) -> None:
        done.append(number)
        clock.now += TURN_SECONDS / 4
        if len(done) < 30:
            line.wait(lambda: share(number))

    for number in range(3):
        line.wait(lambda number=number: share(number))  # type: ignore[misc]
    lengths = []
    while line.waiting:
        await asyncio.sleep(0)
        lengths.append(len(done))
    assert done == [0, 1, 2] * 10 + [0, 1]
    assert lengths == [4, 8, 12, 16, 20, 24, 28, 32]


async def test_a_share_that_takes_long_is_alone_in_its_turn() -> None:
    clock, done = Clock(), []
    line = Turns(clock)

    def share() -> None:
        done.append(clock.now)
        clock.now += 1

    line.wait(share)
    line.wait(share)
    await asyncio.sleep(0)
    assert done == [0]
    await asyncio.sleep(0)
    assert done == [0, 1]


async def test_a_share_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line, done = Turns(), []
    line.wait(lambda: 1 / 0)  # type: ignore[arg-type]
    line.wait(lambda: done.append(1))
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert done == [1]
    assert "ZeroDivisionError" in caplog.text


async def test_work_is_done_share_by_share_beside_other_work() -> None:
    line, done = Turns(), []

    def work(name: str) -> Work[str]:
        for number in range(3):
            done.append((name, number))
            yield
        return name

    first, second = line.work(work("a")), line.work(work("b"))
    assert (await first, await second) == ("a", "b")
    assert done == [(name, number) for number in range(3) for name in "ab"]


async def test_work_that_fails_tells_who_waits_for_it() -> None:
    def work() -> Work[None]:
        yield
        raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        await Turns().work(work())


async def test_work_without_a_waiter_ends() -> None:
    line, ended = Turns(), []

    def work() -> Work[None]:
        try:
            while True:
                yield
        finally:
            ended.append(True)

    working = line.work(work())
    await asyncio.sleep(0)
    working.cancel()
    while line.waiting:
        await asyncio.sleep(0)
    assert ended


async def test_a_loop_has_one_line() -> None:
    assert turns() is turns()

    async def other() -> Turns:
        return turns()

    assert await asyncio.to_thread(asyncio.run, other()) is not turns()
