"""Operations and polled messages as they cross."""

import os
from pathlib import Path

import pytest
from tests.support.lenient import LenientMedium
from tests.support.logs import batch_of, payloads_in

from borzoi.memory.pool import MIB, MemoryPool
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import Append, Flush, Poll
from borzoi.partitions.polling import Polled
from borzoi.records.batch import walk
from borzoi.shard.crossing import (
    APPEND,
    LENT_BATCH,
    POLL,
    decode_polled,
    decode_request,
    encode_polled,
    encode_request,
)
from borzoi.storage.reading import FileRange, Reading

PLACE = Namespace(4095, 17, 999_999)
NOW = 1_700_000_000_000_000


def nothing_lent(position: int, length: int) -> memoryview:
    raise AssertionError("nothing is lent")


@pytest.mark.parametrize(
    "operation", [Flush(sync=True), Poll(PollingStrategy.offset(5), 3, ConsumerKind.GROUP, 9)]
)
def test_an_operation_crosses_with_its_partition_and_its_time(operation):
    code, body = encode_request(PLACE, operation, NOW, None)
    found = decode_request(body, nothing_lent)
    assert (found.namespace, found.now, found.code) == (PLACE, NOW, code)
    assert found.operation == operation


def test_a_poll_is_known_by_its_code():
    code, _ = encode_request(
        PLACE, Poll(PollingStrategy.offset(0), 1, ConsumerKind.CONSUMER, 1), NOW, None
    )
    assert code == POLL


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_batch_outside_the_arena_crosses_as_its_bytes(count):
    batch = batch_of([b"payload-%d" % number for number in range(count)])
    code, body = encode_request(PLACE, Append(batch), NOW, None)
    assert code == APPEND
    found = decode_request(body, nothing_lent).operation
    assert isinstance(found, Append)
    assert found.batch.count == count
    assert bytes(found.batch.messages) == bytes(batch.messages)
    assert not found.batch.messages.readonly, "it is stamped in place"


@pytest.mark.parametrize("sizes", [[100] * 50, [1, 50, 7, 900]])
def test_a_batch_in_the_arena_crosses_as_its_place(sizes):
    pool = MemoryPool(8 * MIB)
    assert pool.arena is not None
    plain = batch_of([bytes([number]) * size for number, size in enumerate(sizes)])
    buffer = pool.acquire(plain.size + 64)
    messages = buffer.view[64 : 64 + plain.size]
    messages[:] = plain.messages
    code, body = encode_request(PLACE, Append(walk(messages)), NOW, pool.arena)
    assert code == APPEND
    assert len(body) == LENT_BATCH.size, "no byte of a message crosses"
    asked: list[tuple[int, int]] = []

    def lent(position: int, length: int) -> memoryview:
        asked.append((position, length))
        return pool.view(position, length)

    found = decode_request(body, lent).operation
    assert isinstance(found, Append)
    assert asked == [(buffer.position + 64, plain.size)]
    assert found.batch.count == len(sizes)
    found.batch.messages[:8] = b"stamped!"
    assert bytes(messages[:8]) == b"stamped!", "it is the same memory"


def test_polled_messages_cross_as_ranges_and_a_tail(tmp_path: Path):
    stored, unsaved = batch_of([b"a", b"b"]), batch_of([b"c"])
    path = tmp_path / "0.log"
    path.write_bytes(b"before" + bytes(stored.messages))
    file = LenientMedium().open(path, writable=False)
    reading = Reading(
        40, 3, [FileRange(file, 6, stored.size)], [unsaved.messages, memoryview(b"")], 1
    )
    body = encode_polled(Polled(reading, 99), lambda one: 5 if one is file else 0)
    other = LenientMedium().open(path, writable=False)
    found = decode_polled(body, lambda number: {5: other}[number])
    assert found.current_offset == 99
    assert (found.reading.first_offset, found.reading.count, found.reading.left_out) == (40, 3, 1)
    assert found.reading.size == reading.size
    assert payloads_in(found.reading.materialise()) == [b"a", b"b", b"c"]
    assert len(body) < 200 + unsaved.size
    file.close()
    other.close()


def test_an_empty_poll_crosses():
    found = decode_polled(encode_polled(Polled(Reading(), 3), os.fspath), lambda _: None)  # type: ignore[arg-type,return-value]
    assert (found.reading.count, found.current_offset) == (0, 3)


def test_an_answer_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidFormat, match="poll"):
        decode_polled(b"\x01\x00\x00\x00\xc1", lambda _: None)  # type: ignore[arg-type,return-value]
