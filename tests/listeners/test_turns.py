"""The line of connections that have more to do than one turn allows."""

import asyncio
import logging

import pytest

from borzoi.handlers.sessions import Session
from borzoi.listeners.turns import (
    FRAMES_BEFORE_LOGIN,
    FRAMES_PER_TURN,
    TURN_SECONDS,
    Turns,
    frames_per_turn,
)
from borzoi.model.system import Transport


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
    while line:
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


def test_strangers_have_a_smaller_share() -> None:
    session = Session(1, "h:1", Transport.TCP, lambda: None, 0.0)
    assert frames_per_turn(session) == FRAMES_BEFORE_LOGIN < FRAMES_PER_TURN
    session.user_id = 0
    assert frames_per_turn(session) == FRAMES_PER_TURN
