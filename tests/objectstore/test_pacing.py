import asyncio

import pytest

from borzoi.objectstore.pacing import RECOVERY_SECONDS, Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def entered(pace: Pace, number: int) -> list[int]:
    return [await pace.enter() for _ in range(number)]


async def test_a_refusal_halves_the_limit_once_for_all_that_were_sent_before_it() -> None:
    pace = Pace(requests_max=16, clock=Clock())
    for _ in range(2):
        tickets = await entered(pace, pace.limit)
        before = pace.limit
        for ticket in tickets:
            pace.leave(ticket, is_throttled=True)
        assert pace.limit == before // 2
    for _ in range(5):
        pace.leave(await pace.enter(), is_throttled=True)
    assert pace.limit == 1, "one request at a time is always allowed"


async def test_the_limit_grows_by_one_for_every_while_without_a_refusal() -> None:
    clock = Clock()
    pace = Pace(requests_max=8, clock=clock)
    pace.leave(await pace.enter(), is_throttled=True)
    assert pace.limit == 4
    clock.now += RECOVERY_SECONDS - 1
    pace.leave(await pace.enter(), is_throttled=False)
    assert pace.limit == 4
    clock.now += 1
    pace.leave(await pace.enter(), is_throttled=False)
    assert pace.limit == 5
    clock.now += 100 * RECOVERY_SECONDS
    pace.leave(await pace.enter(), is_throttled=False)
    assert pace.limit == 8


async def test_who_waits_gets_a_turn_in_the_order_of_coming() -> None:
    pace = Pace(requests_max=2, clock=Clock())
    first = await entered(pace, 2)
    order: list[int] = []

    async def wait(number: int) -> int:
        ticket = await pace.enter()
        order.append(number)
        return ticket

    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert order == []
    for ticket in first:
        pace.leave(ticket, is_throttled=False)
    await asyncio.sleep(0)
    assert order == [0, 1]
    pace.leave(await waiting[0], is_throttled=False)
    await asyncio.wait(waiting)
    assert order == [0, 1, 2]


@pytest.mark.parametrize("has_come", [False, True])
async def test_the_turn_of_a_cancelled_request_is_passed_on(has_come: bool) -> None:
    pace = Pace(requests_max=1, clock=Clock())
    ticket = await pace.enter()
    left = asyncio.create_task(pace.enter())
    after = asyncio.create_task(pace.enter())
    await asyncio.sleep(0)
    if has_come:
        pace.leave(ticket, is_throttled=False)
        left.cancel()
    else:
        left.cancel()
        pace.leave(ticket, is_throttled=False)
    with pytest.raises(asyncio.CancelledError):
        await left
    pace.leave(await asyncio.wait_for(after, 10), is_throttled=False)
    pace.leave(await asyncio.wait_for(pace.enter(), 10), is_throttled=False)


async def test_who_stops_waiting_leaves_no_trace() -> None:
    pace = Pace(requests_max=1, clock=Clock())
    ticket = await pace.enter()
    waiting = asyncio.create_task(pace.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pace.leave(ticket, is_throttled=False)
    pace.leave(await asyncio.wait_for(pace.enter(), 10), is_throttled=False)
