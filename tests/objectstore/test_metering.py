import pytest

from borzoi.objectstore.errors import ObjectNotFound, ObjectStoreError
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.metering import OUTCOMES, MeteredStore, Meters


async def test_requests_bytes_and_durations_are_counted_by_operation() -> None:
    meters = Meters()
    ticks = iter([0, 2_000_000, 10**9, 10**9 + 50_000_000, 2 * 10**9, 42 * 10**9])
    store = MeteredStore(MemoryStore(), meters, clock=lambda: next(ticks))
    await store.put("k", b"12345")
    await store.get_range("k", 0, 3)
    with pytest.raises(ObjectNotFound):
        await store.head("missing")
    assert dict(meters.requests) == {
        ("put", "ok"): 1,
        ("get_range", "ok"): 1,
        ("head", "not_found"): 1,
    }
    assert (meters.bytes["put"], meters.bytes["get_range"], meters.bytes["head"]) == (5, 3, 0)
    assert [meters.durations[op].count for op in ("put", "get_range", "head")] == [1, 1, 1]
    assert meters.durations["get_range"].total_ns == 50_000_000
    assert meters.durations["head"].total_ns == 40 * 10**9
    assert set(meters.inflight.values()) == {0}


@pytest.mark.parametrize(("family", "outcome"), [*OUTCOMES.items(), (ObjectStoreError, "error")])
async def test_every_failure_has_its_outcome(family: type[ObjectStoreError], outcome: str) -> None:
    class Failing(MemoryStore):
        async def get(self, key):
            raise family("no")

    meters = Meters()
    with pytest.raises(family):
        await MeteredStore(Failing(), meters).get("k")
    assert dict(meters.requests) == {("get", outcome): 1}


async def test_two_stores_may_share_their_meters() -> None:
    meters = Meters()
    for _ in range(2):
        await MeteredStore(MemoryStore(), meters).put("k", b"1")
    assert meters.requests["put", "ok"] == 2
