from borzoi.objectstore.latency import LatencyStore
from borzoi.objectstore.memory import MemoryStore


async def test_each_request_waits_first() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    store = LatencyStore(MemoryStore(), 0.05, sleep=sleep)
    await store.put("k", b"1")
    await store.get("k")
    assert pauses == [0.05, 0.05]
    jittery = LatencyStore(MemoryStore(), 0.05, jitter=0.5, seed=3, sleep=sleep)
    for _ in range(20):
        await jittery.put("k", b"1")
    assert 0.025 <= min(pauses[2:]) < max(pauses[2:]) <= 0.075
