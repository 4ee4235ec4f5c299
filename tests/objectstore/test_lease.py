import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from borzoi.objectstore.errors import Corrupt, Fenced, Unavailable
from borzoi.objectstore.lease import (
    Candidate,
    Lease,
    LeaseKeeper,
    Sighting,
    Takeover,
    acquire,
    may_take,
    newest_lease,
    seen,
)
from borzoi.objectstore.memory import MemoryStore

HELD = Lease(epoch=1, server_id="a", host="h", nonce="n", acquired_at=0, ttl_ms=30_000)


class Time:
    """A clock that advances during a sleep and lets other tasks run meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], Awaitable[None] | None] = lambda: None

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)
        waiting = self.meanwhile()
        if waiting is not None:
            await waiting


def candidate(server_id: str, takeover: Takeover = Takeover.SAME_ID) -> Candidate:
    return Candidate(server_id, "host", f"nonce-{server_id}", takeover=takeover)


async def taken(store: MemoryStore, server_id: str, time: Time, **keywords) -> Lease:
    return await acquire(
        store,
        candidate(server_id, **keywords),
        now_us=lambda: 5,
        clock=time,
        sleep=time.sleep,
    )


@pytest.mark.parametrize(
    ("sighting", "who", "takeover", "now", "may"),
    [
        (None, "b", Takeover.WAIT, 0, True),
        (Sighting(HELD, 0), "b", Takeover.SAME_ID, 29.9, False),
        (Sighting(HELD, 0), "b", Takeover.SAME_ID, 30, True),
        (Sighting(HELD, 0), "a", Takeover.SAME_ID, 0, True),
        (Sighting(HELD, 0), "a", Takeover.WAIT, 29.9, False),
        (Sighting(HELD, 0), "b", Takeover.IMMEDIATE, 0, True),
        (Sighting(msgspec.structs.replace(HELD, released=True), 0), "b", Takeover.WAIT, 0, True),
    ],
)
def test_who_may_take_over_and_when(
    sighting: Sighting | None, who: str, takeover: Takeover, now: float, may: bool
) -> None:
    assert may_take(sighting, candidate(who, takeover), now=now) is may


def test_a_heartbeat_starts_the_wait_again() -> None:
    first = seen(None, HELD, now=1)
    assert seen(first, HELD, now=9) == first
    beaten = msgspec.structs.replace(HELD, heartbeat=1)
    assert seen(first, beaten, now=9).since == 9


async def test_each_lease_has_a_higher_epoch() -> None:
    store, time = MemoryStore(), Time()
    assert (await taken(store, "a", time)).epoch == 1
    assert (await taken(store, "a", time)).epoch == 2
    newest = await newest_lease(store, "lease/")
    assert newest is not None
    assert (newest.epoch, newest.server_id, newest.acquired_at) == (2, "a", 5)


async def test_a_standby_waits_until_the_heartbeat_stops() -> None:
    store, time = MemoryStore(), Time()
    keeper = LeaseKeeper(store, await taken(store, "a", time), clock=time, sleep=time.sleep)
    beats = 4

    def beat():
        nonlocal beats
        beats -= 1
        return keeper.renew() if beats >= 0 else None

    time.meanwhile = beat
    lease = await taken(store, "b", time)
    assert lease.epoch == 2
    # Four renewals ten seconds apart, then a whole ttl of silence.
    assert 60 <= time.now <= 90
    with pytest.raises(Fenced):
        await keeper.renew()


async def test_a_released_lease_is_taken_at_once() -> None:
    store, time = MemoryStore(), Time()
    keeper = LeaseKeeper(store, await taken(store, "a", time), clock=time, sleep=time.sleep)
    await keeper.release()
    assert (await taken(store, "b", time)).epoch == 2
    assert time.now == 0


async def test_of_two_that_want_it_one_waits() -> None:
    store, time = MemoryStore(), Time()
    first = await taken(store, "a", time)
    assert first.epoch == 1
    both = [asyncio.create_task(taken(store, name, time)) for name in ("b", "c")]
    done, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result().epoch for task in done] == [2]
    for task in waiting:
        task.cancel()
    await asyncio.wait(both)


async def test_a_lease_that_cannot_be_renewed_is_no_longer_valid() -> None:
    class Flaky(MemoryStore):
        down = False

        async def list_page(self, prefix, *, start_after=""):
            if self.down:
                raise Unavailable("down")
            return await super().list_page(prefix, start_after=start_after)

    store, time = Flaky(), Time()
    keeper = LeaseKeeper(store, await taken(store, "a", time), clock=time, sleep=time.sleep)
    running = asyncio.create_task(keeper.run())

    async def until(moment: float) -> None:
        while time.now < moment:
            await asyncio.sleep(0)

    def was_valid() -> bool:
        return keeper.is_valid

    await until(25)
    assert was_valid()
    assert keeper.lease.heartbeat >= 1
    store.down = True
    await until(90)
    assert was_valid() is False
    store.down = False
    await until(130)
    assert was_valid()
    await store.put("lease/00000000000000000002", HELD.encoded())
    with pytest.raises(Fenced):
        await running


async def test_what_is_no_lease_is_corrupt() -> None:
    store = MemoryStore()
    await store.put("lease/00000000000000000001", b"{}")
    with pytest.raises(Corrupt):
        await newest_lease(store, "lease/")
