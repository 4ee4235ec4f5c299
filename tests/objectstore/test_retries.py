import asyncio
import random

import pytest

from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    ObjectStoreError,
    PermissionDenied,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.pacing import REQUESTS_MAX
from borzoi.objectstore.retries import POLICIES, Backoff, RetryingStore, RetryPolicy, is_tried_again


class Scripted(MemoryStore):
    """Fails as the script says, then does it."""

    def __init__(self, *faults: ObjectStoreError) -> None:
        super().__init__()
        self.faults = list(faults)
        self.asked = 0

    async def _next(self) -> None:
        self.asked += 1
        if self.faults:
            raise self.faults.pop(0)

    async def put(self, key, data):
        await self._next()
        return await super().put(key, data)

    async def create(self, key, data):
        await self._next()
        return await super().create(key, data)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def retrying(store: MemoryStore, clock: Clock) -> RetryingStore:
    return RetryingStore(store, dice=random.Random(1), sleep=clock.sleep, clock=clock)


async def test_what_may_succeed_later_is_tried_again() -> None:
    clock = Clock()
    inner = Scripted(Throttled("slow"), Ambiguous("lost"), Unavailable("down"))
    store = retrying(inner, clock)
    await store.put("k", b"1")
    assert inner.asked == 4
    assert store.retries == {
        ("put", "Throttled"): 1,
        ("put", "Ambiguous"): 1,
        ("put", "Unavailable"): 1,
    }
    assert len(clock.pauses) == 3


async def test_a_create_with_an_open_outcome_is_left_to_its_caller() -> None:
    inner = Scripted(Throttled("slow"), Ambiguous("lost"))
    with pytest.raises(Ambiguous):
        await retrying(inner, Clock()).create("k", b"1")
    assert inner.asked == 2


async def test_answers_are_not_questioned() -> None:
    inner = Scripted(ObjectExists("there"))
    with pytest.raises(ObjectExists):
        await retrying(inner, Clock()).create("k", b"1")
    assert inner.asked == 1


async def test_credentials_get_a_second_chance_and_no_third() -> None:
    inner = Scripted(PermissionDenied("expired"))
    await retrying(inner, Clock()).put("k", b"1")
    inner = Scripted(*[PermissionDenied("no")] * 5)
    with pytest.raises(PermissionDenied):
        await retrying(inner, Clock()).put("k", b"1")
    assert inner.asked == 2


async def test_attempts_and_time_are_limited() -> None:
    inner = Scripted(*[Unavailable("down")] * 100)
    with pytest.raises(Unavailable):
        await retrying(inner, Clock()).put("k", b"1")
    assert inner.asked == POLICIES["put"].retries + 1
    inner, clock = Scripted(*[Unavailable("down")] * 100), Clock()
    policies = {"put": RetryPolicy(2.0, 1e6, 1_000, 3.0)}
    with pytest.raises(Unavailable):
        await RetryingStore(
            inner, policies=policies, dice=random.Random(1), sleep=clock.sleep, clock=clock
        ).put("k", b"1")
    assert clock.now <= 3.0
    assert inner.asked > 3


async def test_a_store_that_asks_for_fewer_requests_gets_fewer_at_once() -> None:
    """It refuses whatever is more than four at a time."""

    class Small(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.inflight = self.most = self.refused = 0

        async def put(self, key, data):
            self.inflight += 1
            self.most = max(self.most, self.inflight)
            try:
                await asyncio.sleep(0)
                if self.inflight > 4:
                    self.refused += 1
                    raise Throttled("slow down", op="put", key=key, status=503)
                return await super().put(key, data)
            finally:
                self.inflight -= 1

    inner, clock = Small(), Clock()
    policies = {"put": RetryPolicy(1e9, 1e9, 1_000, 1e9)}
    store = RetryingStore(
        inner, policies=policies, dice=random.Random(1), sleep=clock.sleep, clock=clock
    )
    await asyncio.gather(*(store.put(f"k{number}", b"1") for number in range(300)))
    assert inner.most == REQUESTS_MAX
    assert inner.refused
    assert len(await inner.list_page("")) == 300
    inner.most = 0
    limit = store.pace.limit
    assert limit < REQUESTS_MAX // 2
    await asyncio.gather(*(store.put(f"m{number}", b"1") for number in range(100)))
    assert inner.most <= limit + 1


async def test_an_attempt_without_an_answer_ends() -> None:
    class Hanging(MemoryStore):
        async def put(self, key, data):
            await asyncio.Event().wait()

        async def get(self, key):
            await asyncio.Event().wait()

    policies = {"put": RetryPolicy(0.01, 1e9, 0, 1.0), "get": RetryPolicy(0.01, 1e9, 0, 1.0)}
    store = RetryingStore(Hanging(), policies=policies)
    with pytest.raises(Ambiguous, match="no answer within"):
        await store.put("k", b"1")
    with pytest.raises(Unavailable, match="no answer within"):
        await store.get("k")


def test_pauses_double_up_to_a_cap_and_a_throttled_one_is_longer() -> None:
    class Highest(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return b

    backoff = Backoff(Highest())
    pauses = [backoff.next(Unavailable("down")) for _ in range(10)]
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 5.0
    assert Backoff(Highest()).next(Throttled("slow")) == 0.1


@pytest.mark.parametrize(
    ("fault", "op", "attempt", "again"),
    [
        (ObjectNotFound("no"), "get", 1, False),
        (Throttled("slow"), "create", 1, True),
        (Ambiguous("lost"), "create", 1, False),
        (Ambiguous("lost"), "delete", 9, True),
        (PermissionDenied("no"), "get", 1, True),
        (PermissionDenied("no"), "get", 2, False),
    ],
)
def test_what_is_sent_again_without_a_look(
    fault: ObjectStoreError, op: str, attempt: int, again: bool
) -> None:
    assert is_tried_again(fault, op, attempt) is again
