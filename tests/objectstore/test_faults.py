import pytest

from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.faults import Fault, FaultyStore, is_possible
from borzoi.objectstore.memory import MemoryStore


@pytest.mark.parametrize(
    ("fault", "error", "is_done"),
    [
        (Fault.DROP_BEFORE, Ambiguous, False),
        (Fault.DROP_AFTER, Ambiguous, True),
        (Fault.CONFLICT, Ambiguous, False),
        (Fault.OWN_EXISTS, ObjectExists, True),
        (Fault.THROTTLE, Throttled, False),
    ],
)
async def test_what_a_create_meets(fault: Fault, error: type[Exception], is_done: bool) -> None:
    truth = MemoryStore()
    store = FaultyStore(truth, seed=1, chance=1.0, faults=(fault,))
    with pytest.raises(error):
        await store.create("k", b"1")
    assert bool(await truth.list_page("")) is is_done
    assert store.played == {fault: 1}


@pytest.mark.parametrize("fault", [Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.TRUNCATE])
async def test_a_read_is_unavailable(fault: Fault) -> None:
    truth = MemoryStore()
    await truth.put("k", b"1")
    with pytest.raises(Unavailable):
        await FaultyStore(truth, seed=1, chance=1.0, faults=(fault,)).get("k")


async def test_the_seed_decides() -> None:
    async def outcomes(seed: int) -> list[str]:
        store = FaultyStore(MemoryStore(), seed=seed, chance=0.5)
        found = []
        for number in range(50):
            try:
                await store.put(f"k{number}", b"1")
            except (Ambiguous, Throttled) as fault:
                found.append(str(fault))
        return found

    assert await outcomes(1) == await outcomes(1) != await outcomes(2)


async def test_delays_are_drawn_as_well() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    store = FaultyStore(MemoryStore(), seed=1, chance=0, delay_max=2.0, sleep=sleep)
    for _ in range(20):
        with pytest.raises(ObjectNotFound):
            await store.get("k")
    assert len(set(pauses)) == 20
    assert 0 <= min(pauses) <= max(pauses) <= 2.0


def test_some_faults_happen_to_some_requests_only() -> None:
    assert not is_possible(Fault.OWN_EXISTS, "put")
    assert not is_possible(Fault.CONFLICT, "get")
    assert not is_possible(Fault.TRUNCATE, "put")
    assert is_possible(Fault.TRUNCATE, "get_range")
