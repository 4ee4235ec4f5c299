import asyncio

from borzoi.partitions.arrivals import Arrivals


async def test_who_waits_is_woken_once() -> None:
    arrivals = Arrivals()
    assert not arrivals.waiting
    waiting = [arrivals.wait(60) for _ in range(3)]
    assert arrivals.waiting == set(waiting)
    arrivals.wake()
    await asyncio.gather(*waiting)
    await asyncio.sleep(0)
    assert not arrivals.waiting
    arrivals.wake()


async def test_a_wait_ends_at_its_timeout() -> None:
    arrivals = Arrivals()
    await arrivals.wait(0.001)
    await asyncio.sleep(0)
    assert not arrivals.waiting


async def test_who_goes_is_forgotten() -> None:
    arrivals = Arrivals()
    gone = arrivals.wait(60)
    gone.cancel()
    await asyncio.sleep(0)
    assert not arrivals.waiting
    gone = arrivals.wait(60)
    gone.cancel()
    arrivals.wake()  # before it could be forgotten
    await asyncio.sleep(0)
