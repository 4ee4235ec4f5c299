import random

import pytest
from tests.support.object_log_schedules import Dice

from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import Ambiguous, ObjectStoreError, PermissionDenied, Unavailable
from borzoi.objectstore.faults import FaultyStore
from borzoi.objectstore.memory import MemoryStore

no_pause = Dice(0).sleep


class Failing(MemoryStore):
    """Fails the first creates with a given error, and counts them."""

    def __init__(self, *faults: ObjectStoreError) -> None:
        super().__init__()
        self.faults = list(faults)
        self.attempts = 0

    async def create(self, key, data):
        self.attempts += 1
        if self.faults:
            raise self.faults.pop(0)
        return await super().create(key, data)


async def test_any_run_of_faults_ends_with_one_object_that_is_ours() -> None:
    truth = MemoryStore()
    faulty = FaultyStore(truth, seed=1, chance=0.6)
    for number in range(200):
        key = f"k/{number}"
        await create_once(faulty, key, b"ours", attempts=None, sleep=no_pause)
        assert bytes((await truth.get(key)).data) == b"ours"
        with pytest.raises(Taken) as raised:
            await create_once(faulty, key, b"theirs", attempts=None, sleep=no_pause)
        assert raised.value.found == b"ours"
        assert bytes((await truth.get(key)).data) == b"ours"
    assert min(faulty.played.values()) > 20


async def test_only_the_first_bytes_are_compared() -> None:
    store = MemoryStore()
    await store.create("k", b"nonce+one")
    await create_once(store, "k", b"nonce+two", compared=5, sleep=no_pause)
    with pytest.raises(Taken):
        await create_once(store, "k", b"nonce+two", sleep=no_pause)


async def test_a_shorter_object_is_another_s() -> None:
    store = MemoryStore()
    await store.create("k", b"x")
    with pytest.raises(Taken) as raised:
        await create_once(store, "k", b"nonce", sleep=no_pause)
    assert raised.value.found == b"x"


async def test_it_gives_up_after_so_many_attempts() -> None:
    store = Failing(*[Ambiguous("lost")] * 20)
    with pytest.raises(Ambiguous):
        await create_once(store, "k", b"1", attempts=7, sleep=no_pause)
    assert store.attempts == 7


async def test_without_a_limit_refused_credentials_are_an_outage() -> None:
    store = Failing(PermissionDenied("expired"), Unavailable("down"), PermissionDenied("expired"))
    await create_once(store, "k", b"1", attempts=None, sleep=no_pause)
    assert store.attempts == 4
    with pytest.raises(PermissionDenied):
        await create_once(Failing(PermissionDenied("expired")), "k", b"1", sleep=no_pause)


async def test_pauses_come_from_the_dice() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    await create_once(
        Failing(*[Unavailable("down")] * 5),
        "k",
        b"1",
        sleep=sleep,
        dice=random.Random(1),
    )
    assert len(pauses) == 5
    assert all(0 <= pause <= 0.05 * 2**number for number, pause in enumerate(pauses))
