"""Room for large requests, over all connections."""

import asyncio

from borzoi.listeners.unfinished import Unfinished
from borzoi.partitions.turns import Turns


async def test_who_is_let_in_can_finish_and_the_others_come_in_order() -> None:
    room, let_in = Unfinished(100, Turns()), []
    assert room.enter(60)
    assert not room.enter(50)
    room.wait(50, lambda: let_in.append("first"))
    room.wait(10, lambda: let_in.append("second"))
    assert not room.enter(1), "no request overtakes those that wait"
    assert (room.in_use, room.waiting) == (60, 2)
    room.leave(60)
    await asyncio.sleep(0)
    assert let_in == ["first", "second"]
    assert (room.in_use, room.waiting) == (60, 0)


async def test_what_is_larger_than_the_room_is_let_in_alone() -> None:
    room, let_in = Unfinished(100, Turns()), []
    assert room.enter(1000)
    assert not room.enter(1)
    room.wait(1, lambda: let_in.append(1))
    room.leave(1000)
    await asyncio.sleep(0)
    assert let_in == [1]


async def test_who_waits_in_front_and_goes_holds_nobody_up() -> None:
    room, let_in = Unfinished(100, Turns()), []
    assert room.enter(60)

    def gone() -> None:
        let_in.append("gone")

    room.wait(100, gone)
    room.wait(40, lambda: let_in.append("next"))
    room.forget(gone)
    await asyncio.sleep(0)
    assert let_in == ["next"]
    assert room.in_use == 100


async def test_a_block_waits_for_room_and_leaves_it() -> None:
    room, order = Unfinished(100_000, Turns()), []

    async def take(name: str, size: int) -> None:
        async with room.room(size):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(take("a", 90_000), take("b", 90_000), take("small", 10))
    assert order == ["a", "small", "b"]
    assert (room.in_use, room.waiting) == (0, 0)


async def test_a_block_that_is_cancelled_gives_its_place_or_its_room_back() -> None:
    room = Unfinished(100_000, Turns())

    async def take() -> None:
        async with room.room(90_000):
            raise AssertionError("it was cancelled")

    assert room.enter(90_000)
    waiting, granted = asyncio.ensure_future(take()), asyncio.ensure_future(take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert room.waiting == 1
    room.leave(90_000)
    assert room.in_use == 90_000
    granted.cancel()
    await asyncio.wait({granted})
    while room.in_use:
        await asyncio.sleep(0)
