"""Behaviour of the library that callers must not see, each with the test that it is handled.

The numbers are those of the table in docs/object-storage.md.
"""

import asyncio
import multiprocessing

import msgspec
import obstore
import obstore.store
import pytest
from tests.support.fault_proxy import Played, fault_proxy
from tests.support.interpreter import run_python
from tests.support.object_servers import client_of, location_of, new_place

from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    RangeOutOfBounds,
    Throttled,
    Unavailable,
    WeakStore,
)
from borzoi.objectstore.interface import PART_BYTES_MIN
from borzoi.objectstore.locations import Location, Timing, open_store
from borzoi.objectstore.obstore_adapter import ObstoreStore

QUICK = Timing(request_seconds=5, part_retries=0, part_retry_seconds=5)


def behind(moto: Location, endpoint: str):
    return open_store(msgspec.structs.replace(moto, endpoint=endpoint), QUICK)


async def test_q1_a_conflict_is_not_an_existing_object(moto: Location) -> None:
    async with fault_proxy(moto.endpoint) as proxy:
        store = behind(moto, proxy.endpoint)
        for write in (store.create, store.put):
            proxy.play(Played.CONFLICT, "PUT")
            with pytest.raises(Ambiguous) as raised:
                await write("k", b"1")
            assert raised.value.status == 409
        await store.create("k", b"1")
        with pytest.raises(ObjectExists) as existing:
            await store.create("k", b"2")
        assert existing.value.status == 412
        await store.close()


async def test_q2_a_lost_answer_is_not_sent_again_behind_our_back(moto: Location) -> None:
    async with fault_proxy(moto.endpoint) as proxy:
        store = behind(moto, proxy.endpoint)
        proxy.play(Played.BROKEN, "PUT")
        with pytest.raises(Ambiguous):
            await store.create("k", b"1")
        assert len(proxy.seen) == 1
        await store.close()


async def test_q3_failures_are_told_apart(moto: Location) -> None:
    async with fault_proxy(moto.endpoint) as proxy:
        store = behind(moto, proxy.endpoint)
        for fault, error in (
            (Played.SLOW_DOWN, Throttled),
            (Played.BROKEN, Ambiguous),
            (Played.DROP_BEFORE, Ambiguous),
        ):
            proxy.play(fault, "PUT")
            with pytest.raises(error):
                await store.put("k", b"1")
        await store.close()
    refused = behind(moto, "http://127.0.0.1:1")
    with pytest.raises(Unavailable):  # nothing was sent, so nothing is open
        await refused.put("k", b"1")
    no_bucket = open_store(msgspec.structs.replace(moto, bucket="no-such-bucket"), QUICK)
    with pytest.raises(Unavailable, match="NoSuchBucket"):
        await no_bucket.get("k")
    await no_bucket.close()


async def test_q4_a_shortened_range_is_an_error(moto: Location) -> None:
    store = open_store(moto)
    await store.put("k", b"12345")
    with pytest.raises(RangeOutOfBounds):
        await store.get_range("k", 2, 9)
    await store.close()


async def test_q5_a_missing_key_is_ours_to_name_and_fine_to_delete(tmp_path) -> None:
    local = obstore.store.LocalStore(tmp_path, mkdir=True)
    with pytest.raises(FileNotFoundError):
        await obstore.delete_async(local, "k")
    store = ObstoreStore(local, local, is_ordered=False)
    await store.delete("k")
    await store.put("there", b"1")
    assert await store.delete_many(["k", "there", "m"]) == []
    with pytest.raises(ObjectNotFound):
        await store.get("there")


async def test_q6_no_conditional_update_is_ever_sent(moto: Location, tmp_path) -> None:
    """The library's own stores do not agree on it, so nothing of ours may need it."""
    local = obstore.store.LocalStore(tmp_path, mkdir=True)
    await obstore.put_async(local, "k", b"1")
    with pytest.raises(RuntimeError):
        await obstore.put_async(local, "k", b"2", mode={"e_tag": '"1"'})
    with pytest.raises(TypeError):
        await obstore.put_async(local, "k", b"2", mode={"e_tag": '"1"', "version": None})
    async with fault_proxy(moto.endpoint) as proxy:
        store = behind(moto, proxy.endpoint)
        await store.create("k", b"1")
        await store.put("k", b"2")
        upload = store.open_multipart("m", part_size=PART_BYTES_MIN)
        await upload.part(bytes(PART_BYTES_MIN))
        await upload.complete()
        await store.delete_many(["k", "m"])
        await store.close()
    assert len(proxy.heads) > 5
    assert [head for head in proxy.heads if b"if-match" in head.lower()] == []
    assert sum(b"if-none-match: *" in head.lower() for head in proxy.heads) == 1


async def test_q7_giving_up_ends_the_upload_and_cancelling_does_as_well(moto: Location) -> None:
    store, client = open_store(moto), client_of(moto.endpoint)

    def begun() -> list[str]:
        found = client.list_multipart_uploads(Bucket=moto.bucket).get("Uploads", [])
        return [one["Key"] for one in found if one["Key"].startswith(moto.prefix)]

    upload = store.open_multipart("aborted", part_size=PART_BYTES_MIN)
    await upload.part(bytes(PART_BYTES_MIN))
    while not await asyncio.to_thread(begun):
        await asyncio.sleep(0.01)
    await upload.abort()
    assert await asyncio.to_thread(begun) == []

    upload = store.open_multipart("cancelled", part_size=PART_BYTES_MIN, concurrency=1)

    async def feed() -> None:
        try:
            while True:
                await upload.part(bytes(PART_BYTES_MIN))
        finally:
            await upload.abort()

    feeding = asyncio.create_task(feed())
    while not await asyncio.to_thread(begun):
        await asyncio.sleep(0.01)
    feeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await feeding
    assert await asyncio.to_thread(begun) == []
    assert await store.list_page("") == []
    client.close()
    await store.close()


async def test_q8_nothing_is_visible_before_the_end(moto: Location) -> None:
    store = open_store(moto)
    upload = store.open_multipart("k", part_size=PART_BYTES_MIN)
    await upload.part(bytes(PART_BYTES_MIN))
    with pytest.raises(ObjectNotFound):
        await store.head("k")
    await upload.complete()
    assert (await store.head("k")).size == PART_BYTES_MIN
    await store.close()


def test_q9_a_process_may_end_right_after_its_last_request(moto: Location) -> None:
    code = f"""
import asyncio
from borzoi.objectstore.locations import *
async def main():
    store = open_store(Location("s3", {moto.bucket!r}, {moto.prefix!r}, {moto.endpoint!r},
        "us-east-1", secrets=Secrets({moto.secrets.access_key_id!r}, "x")))
    upload = store.open_multipart("k", part_size={PART_BYTES_MIN})
    await upload.part(bytes({PART_BYTES_MIN}))
    await upload.part(b"end")
    await upload.complete()
    await store.close()
asyncio.run(main())
"""
    for _ in range(3):
        done = run_python("-c", code)
        assert (done.returncode, done.stderr) == (0, "")


def test_q10_a_store_refuses_to_work_in_a_fork() -> None:
    memory = obstore.store.MemoryStore()
    store = ObstoreStore(memory, memory)

    def in_the_child(answers) -> None:
        try:
            asyncio.run(store.head("k"))
        except AssertionError as refusal:
            answers.put(str(refusal))

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=in_the_child, args=(answers,))
    child.start()
    assert "open one per process" in answers.get(timeout=30)
    child.join()


@pytest.mark.object
async def test_q11_a_server_that_ignores_ranges_is_weak(rclone_endpoint: str) -> None:
    store = open_store(new_place(rclone_endpoint), QUICK)
    await store.put("k", bytes(100))
    with pytest.raises(WeakStore):
        await store.get_range("k", 10, 20)
    await store.close()


async def test_q12_etags_stay_quoted_as_they_came(moto: Location) -> None:
    store = open_store(moto)
    outcome = await store.put("k", b"1")
    assert outcome.etag == (await store.head("k")).etag == '"c4ca4238a0b923820dcc509a6f75849b"'
    await store.close()


async def test_several_ranges_past_the_end_are_an_error_not_a_panic() -> None:
    memory = obstore.store.MemoryStore()
    store = ObstoreStore(memory, memory)
    await store.put("k", bytes(100))
    with pytest.raises(RangeOutOfBounds):
        await store.get_ranges("k", [(0, 5), (500, 600)])


async def test_wrong_credentials_are_denied() -> None:
    async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refused, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    store = open_store(location_of(endpoint, "bucket"), QUICK)
    for request in (store.get("k"), store.head("k"), store.list_page(""), store.delete("k")):
        with pytest.raises(PermissionDenied):
            await request
    await store.close()
    server.close()
