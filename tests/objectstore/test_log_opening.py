"""Opening a log in plain cases; the schedules in `test_object_log.py` find the others."""

import msgspec
import pytest
from tests.support.object_log_schedules import Dice, Records

from borzoi.objectstore.errors import Corrupt, Fenced
from borzoi.objectstore.headers import ObjectKind
from borzoi.objectstore.latency import LatencyStore
from borzoi.objectstore.log_opening import Opener
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.object_log import (
    WINDOW,
    LogAddress,
    ObjectLog,
    newest_checkpoint,
    read_slot,
)


async def opened(store, epoch: int, **keywords) -> tuple[ObjectLog, Records]:
    state = Records([])
    opener = Opener(LogAddress(store, "lane", 7), epoch, Dice(epoch), state, **keywords)
    return await opener.open(), state


async def appended(log: ObjectLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        await log.append(msgspec.msgpack.encode((number, number)))


async def test_an_empty_log_begins_with_a_fence_and_a_checkpoint() -> None:
    store = MemoryStore()
    log, state = await opened(store, 1)
    assert state.records == []
    place = LogAddress(store, "lane", 7)
    fence = await read_slot(place, 0)
    assert fence is not None
    assert (fence.header.kind, fence.header.epoch, fence.header.mark) == (
        ObjectKind.FENCE,
        1,
        WINDOW,
    )
    checkpoint = await newest_checkpoint(place)
    assert checkpoint is not None
    assert (checkpoint.epoch, checkpoint.next_sequence) == (1, WINDOW)
    assert await log.append(msgspec.msgpack.encode((0, 5))) == WINDOW


async def test_the_next_writer_finds_everything_and_goes_on_past_the_window() -> None:
    store = MemoryStore()
    log, _ = await opened(store, 1)
    await appended(log, 0, 100)
    after, state = await opened(store, 2)
    assert state.records == list(range(100))
    assert after.committed == WINDOW + 100 + WINDOW
    await appended(after, 100, 10)
    _, state = await opened(store, 3)
    assert state.records == list(range(110))


async def test_a_checkpoint_makes_replay_short() -> None:
    store = MemoryStore()
    log, _ = await opened(store, 1)
    await appended(log, 0, 50)
    snapshot = msgspec.msgpack.encode(list(range(50)))
    await log.write_checkpoint(snapshot, next_sequence=log.committed)
    assert await log.trim() == 50
    await appended(log, 50, 5)
    _, state = await opened(store, 2)
    assert state.records == list(range(55))


async def test_an_older_epoch_is_refused_at_a_checkpoint_and_at_a_slot() -> None:
    store = MemoryStore()
    await opened(store, 5)
    with pytest.raises(Fenced, match="epoch 5 has taken over from 4"):
        await opened(store, 4)
    for meta in await store.list_page("lane/ckpt/"):
        await store.delete(meta.key)
    with pytest.raises(Fenced):
        await opened(store, 4)


async def test_slots_are_read_ahead() -> None:
    store = MemoryStore()
    log, _ = await opened(store, 1)
    await appended(log, 0, 64)
    for meta in await store.list_page("lane/ckpt/"):
        await store.delete(meta.key)
    waits = 0

    async def sleep(_: float) -> None:
        nonlocal waits
        waits += 1

    _, state = await opened(LatencyStore(store, 1, sleep=sleep), 2)
    assert state.records == list(range(64))
    # Far fewer than twice: what was read ahead is not read again, except the first absent slot.
    assert waits < 64 + 2 * 32 + 10


async def test_damage_is_named() -> None:
    store = MemoryStore()
    log, _ = await opened(store, 1)
    await appended(log, 0, 3)
    key = f"lane/log/{WINDOW + 1:020}"
    data = bytearray((await store.get(key)).data)
    data[30] ^= 1
    await store.put(key, data)
    with pytest.raises(Corrupt, match=key):
        await opened(store, 2)
    await store.put(key, bytes((await store.get(f"lane/log/{WINDOW:020}")).data))
    with pytest.raises(Corrupt, match=f"it says it is slot {WINDOW} of log 7"):
        await opened(store, 2)
