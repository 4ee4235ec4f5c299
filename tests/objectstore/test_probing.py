import pytest
from tests.support.object_servers import TIMING, new_place

from borzoi.objectstore.errors import (
    ConditionalWriteUnsupported,
    Unavailable,
    WeakStore,
)
from borzoi.objectstore.locations import open_store
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.probing import DELETED, EXCLUSIVE, LISTED, RANGED, ProbeResult, probe


class Overwriting(MemoryStore):
    async def create(self, key, data):
        return await self.put(key, data)


class FailingButOverwriting(MemoryStore):
    async def create(self, key, data):
        try:
            return await super().create(key, data)
        finally:
            await self.put(key, data)


class Rangeless(MemoryStore):
    async def get_range(self, key, start, end):
        return (await self.get(key)).data


class RangeRefusing(MemoryStore):
    async def get_range(self, key, start, end):
        raise WeakStore("non-partial response")


class Forgetful(MemoryStore):
    async def list_page(self, prefix, *, start_after=""):
        return []


class Keeping(MemoryStore):
    async def delete(self, key):
        pass


@pytest.mark.parametrize(
    ("store", "missing"),
    [
        (MemoryStore(), []),
        (Overwriting(), [EXCLUSIVE]),
        (FailingButOverwriting(), [EXCLUSIVE]),
        (Rangeless(), [RANGED]),
        (RangeRefusing(), [RANGED]),
        (Forgetful(), [LISTED]),
        (Keeping(), [DELETED]),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_a_store_lacks_is_named(store: MemoryStore, missing: list[str]) -> None:
    verdict = await probe(store)
    assert [finding.property for finding in verdict.findings if not finding.holds] == missing
    assert all(bool(finding.detail) is not finding.holds for finding in verdict.findings)
    assert verdict.accepted is (missing == [])
    if EXCLUSIVE in missing:
        with pytest.raises(ConditionalWriteUnsupported, match="cannot be used"):
            verdict.check()
    elif missing:
        with pytest.raises(WeakStore):
            verdict.check()
    else:
        verdict.check()


async def test_a_store_that_does_not_answer_is_not_judged() -> None:
    class Down(MemoryStore):
        async def get_range(self, key, start, end):
            raise Unavailable("down")

    store = Down()
    with pytest.raises(Unavailable):
        await probe(store)
    assert await store.list_page("") == []


async def test_nothing_is_left_behind() -> None:
    store = MemoryStore()
    assert isinstance(await probe(store), ProbeResult)
    assert await store.list_page("") == []


@pytest.mark.object
async def test_rclone_is_refused_because_it_overwrites(rclone_endpoint: str) -> None:
    store = open_store(new_place(rclone_endpoint), TIMING)
    try:
        verdict = await probe(store)
    finally:
        await store.close()
    missing = [finding.property for finding in verdict.findings if not finding.holds]
    assert EXCLUSIVE in missing
    assert RANGED in missing
    with pytest.raises(ConditionalWriteUnsupported):
        verdict.check()
