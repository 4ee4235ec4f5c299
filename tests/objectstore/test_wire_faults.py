"""Everything that can happen to a request between us and a real store, one fault at a time.

Each ends in success or in an error of ours, and afterwards the store has what it should: nothing
lost that was acknowledged, nothing twice.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.support.fault_proxy import FaultProxy, Played, fault_proxy
from tests.support.object_log_schedules import Records
from tests.support.object_servers import client_of

from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import Ambiguous, ObjectStoreError, Throttled, Unavailable
from borzoi.objectstore.interface import MIB, PART_BYTES_MIN, ObjectStore
from borzoi.objectstore.listing import list_objects
from borzoi.objectstore.locations import Location, Timing, open_store
from borzoi.objectstore.log_opening import Opener
from borzoi.objectstore.multipart import BufferedMultipartWriter
from borzoi.objectstore.object_log import LogAddress, SystemSource
from borzoi.objectstore.retries import POLICIES, RetryingStore, RetryPolicy

#: A hanging request has to end within a test; everything else answers at once.
TIMING = Timing(connect_seconds=3.0, request_seconds=1.5, part_retries=4, part_retry_seconds=30.0)
PATIENT = {
    op: msgspec.structs.replace(policy, attempt_seconds=1.5) for op, policy in POLICIES.items()
}


def faults(without: Played) -> list[object]:
    """All but one; a request that hangs takes its time, so most of those are left to the tier."""
    return [
        pytest.param(fault, marks=pytest.mark.object) if fault is Played.HANG else fault
        for fault in Played
        if fault is not without
    ]


WRITE_FAULTS = faults(without=Played.TRUNCATED)
READ_FAULTS = faults(without=Played.CONFLICT)


@pytest_asyncio.fixture
async def proxy(moto: Location) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(moto.endpoint) as running:
        yield running


@pytest_asyncio.fixture
async def bare(moto: Location, proxy: FaultProxy) -> AsyncIterator[ObjectStore]:
    """A store behind the proxy, as the library offers it."""
    store = open_store(msgspec.structs.replace(moto, endpoint=proxy.endpoint), TIMING)
    yield store
    await store.close()


@pytest.fixture
def patient(bare: ObjectStore) -> RetryingStore:
    return RetryingStore(bare, policies=PATIENT)


@pytest_asyncio.fixture
async def truth(moto: Location) -> AsyncIterator[ObjectStore]:
    """The same store without the proxy."""
    store = open_store(moto)
    yield store
    await store.close()


@pytest.mark.parametrize("fault", WRITE_FAULTS)
async def test_a_single_write_is_done_or_fails_with_an_error_of_ours(
    bare: ObjectStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    rule = proxy.play(fault, "PUT")
    if fault is Played.SLOW:
        await bare.create("k", b"1")
    else:
        with pytest.raises(Throttled if fault is Played.SLOW_DOWN else Ambiguous) as raised:
            await bare.create("k", b"1")
        assert raised.value.retriable
    assert rule.played == 1
    was_done = fault in (Played.DROP_AFTER, Played.BROKEN, Played.HANG, Played.SLOW)
    assert [meta.key async for meta in list_objects(truth, "")] == (["k"] if was_done else [])


@pytest.mark.parametrize("fault", [fault for fault in Played if fault is not Played.TRUNCATED])
async def test_a_create_is_found_to_be_ours_or_sent_again(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    proxy.play(fault, "PUT", times=2)
    await create_once(patient, "k", b"nonce-1 and more", compared=7)
    with pytest.raises(Taken) as raised:
        await create_once(patient, "k", b"nonce-2 and more", compared=7)
    assert raised.value.found == b"nonce-1"
    assert bytes((await truth.get("k")).data) == b"nonce-1 and more"


@pytest.mark.parametrize("fault", WRITE_FAULTS)
async def test_a_put_is_tried_again(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    rule = proxy.play(fault, "PUT", times=2)
    await patient.put("k", b"1")
    await patient.put("k", b"2")
    assert bytes((await truth.get("k")).data) == b"2"
    assert rule.played == 2


@pytest.mark.parametrize("fault", READ_FAULTS)
async def test_reads_are_tried_again_and_never_short(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    data = os.urandom(50_000)
    await truth.put("k", data)
    for request, wanted in (
        (lambda: patient.get("k"), data),
        (lambda: patient.get_range("k", 100, 40_000), data[100:40_000]),
        (lambda: patient.get_suffix("k", 20_000), data[-20_000:]),
    ):
        rule = proxy.play(fault, "GET")
        found = await request()
        body: Any = found[0] if isinstance(found, tuple) else getattr(found, "data", found)
        assert bytes(body) == wanted
        assert rule.played == 1
    rule = proxy.play(fault, "list-type")
    assert [meta.key async for meta in list_objects(patient, "")] == ["k"]
    assert rule.played == 1


@pytest.mark.parametrize("fault", READ_FAULTS)
async def test_without_patience_a_read_fails_with_an_error_of_ours(
    bare: ObjectStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    await truth.put("k", bytes(50_000))
    proxy.play(fault, "GET")
    if fault is Played.SLOW:
        assert len((await bare.get("k")).data) == 50_000
        return
    with pytest.raises(Throttled if fault is Played.SLOW_DOWN else Unavailable):
        await bare.get("k")


@pytest.mark.parametrize("fault", WRITE_FAULTS)
@pytest.mark.parametrize("request_line", ["uploads", "partNumber=2", "POST"])
async def test_an_upload_in_parts_is_whole_or_nothing(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, moto: Location, fault: Played,
    request_line: str,
) -> None:  # fmt: skip
    data = os.urandom(2 * PART_BYTES_MIN + MIB)
    rule = proxy.play(fault, request_line)
    writer = BufferedMultipartWriter(patient, "big", part_size=PART_BYTES_MIN)
    try:
        await writer.append(data)
        await writer.seal()
    except ObjectStoreError:
        objects = [meta.key async for meta in list_objects(truth, "")]
        # The last answer may be lost after the store has put the parts together.
        assert objects in ([], ["big"])
        is_complete = objects == ["big"]
    else:
        is_complete = True
    assert rule.played == 1
    if is_complete:
        assert bytes((await truth.get("big")).data) == data
    else:
        client = client_of(moto.endpoint)
        found = client.list_multipart_uploads(Bucket=moto.bucket).get("Uploads", [])
        client.close()
        left = [one for one in found if one["Key"].startswith(moto.prefix)]
        assert left == [] or request_line in ("uploads", "POST"), "a begun upload was not ended"


@pytest.mark.parametrize("fault", WRITE_FAULTS)
async def test_a_delete_is_tried_again(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    await truth.put("k", b"1")
    rule = proxy.play(fault, "DELETE")
    rule_of_many = proxy.play(fault, "?delete")
    await patient.delete("k")
    assert [meta.key async for meta in list_objects(truth, "")] == []
    assert rule.played + rule_of_many.played == 1


@pytest.mark.parametrize("fault", WRITE_FAULTS)
async def test_a_log_keeps_its_order_and_loses_nothing(
    patient: RetryingStore, truth: ObjectStore, proxy: FaultProxy, fault: Played
) -> None:
    faults: list[str] = []
    place = LogAddress(patient, "lane", 1)
    log = await Opener(place, 1, SystemSource(), Records(faults)).open()
    rules = [proxy.play(fault, f"{number:020}") for number in (65, 66, 70)]
    acks = [log.append(msgspec.msgpack.encode((number, number))) for number in range(12)]
    assert await asyncio.gather(*acks) == list(range(64, 76))
    assert [rule.played for rule in rules] == [1, 1, 1]
    await log.close()
    state = Records(faults)
    await Opener(LogAddress(truth, "lane", 1), 2, SystemSource(), state).open()
    assert (state.records, faults) == (list(range(12)), [])


def test_the_policies_are_those_of_the_table() -> None:
    assert POLICIES["create"] == RetryPolicy(2.0, 4 * MIB, 10, 30.0)
    assert POLICIES["put"].attempt_timeout(8 * MIB) == 4.0
