"""Operations and polled messages as they cross."""

import base64
import os
from pathlib import Path

import pytest
from tests.support.lenient import LenientMedium
from tests.support.logs import batch_of, payloads_in

from borzoi.memory.pool import MIB, NOWHERE, MemoryPool
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions.decrypting import ClearSlices
from borzoi.partitions.encrypting import encrypted
from borzoi.partitions.operations import Flush, Poll
from borzoi.partitions.polling import Polled
from borzoi.records.batch import walk
from borzoi.records.compression import compress_frames
from borzoi.security.encryption import Cipher
from borzoi.shard.crossing import (
    APPEND,
    CODE_AT,
    LENT_BATCH,
    POLL,
    Stretch,
    decode_append,
    decode_polled,
    decode_request,
    encode_append,
    encode_polled,
    encode_request,
)
from borzoi.shard.crossing_files import Announcement, ReceivedFiles
from borzoi.storage.compressed import CompressedBody, FrameCache, opened_twin
from borzoi.storage.local import LocalMedium
from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.reading import FileRange, FileSlices, Produced, Reading
from borzoi.storage.segment import PartSlices

PLACE = Namespace(4095, 17, 999_999)
NOW = 1_700_000_000_000_000


class Files(dict[int, ReadOnlyFile]):
    """Files by their numbers, none of them compressed."""

    def get(self, number: int) -> ReadOnlyFile:  # type: ignore[override]
        return self[number]

    def twin(self, number: int) -> CompressedBody:
        raise AssertionError(f"file {number} is not compressed")


def nothing_lent(peer: int, position: int, length: int) -> memoryview:
    raise AssertionError("nothing is lent")


@pytest.mark.parametrize(
    "operation", [Flush(sync=True), Poll(PollingStrategy.offset(5), 3, ConsumerKind.GROUP, 9)]
)
def test_an_operation_crosses_with_its_partition_and_its_time(operation):
    code, body = encode_request(PLACE, operation, NOW)
    assert body[CODE_AT] == code != APPEND
    found = decode_request(body)
    assert (found.namespace, found.now) == (PLACE, NOW)
    assert found.operation == operation


def test_a_poll_is_known_by_its_code():
    code, body = encode_request(
        PLACE, Poll(PollingStrategy.offset(0), 1, ConsumerKind.CONSUMER, 1), NOW, welcome=5
    )
    assert code == POLL
    assert decode_request(body).welcome == 5


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_batch_outside_the_arena_crosses_as_its_bytes(count):
    batch = batch_of([b"payload-%d" % number for number in range(count)])
    body = encode_append(PLACE, batch, NOW, NOWHERE)
    assert body[CODE_AT] == APPEND
    append = decode_append(body, 2, nothing_lent)
    found = append.batch
    assert (append.namespace, append.now, append.client) == (PLACE, NOW, 0)
    assert found.ends.tolist() == batch.ends.tolist()
    assert bytes(found.messages) == bytes(batch.messages)
    assert not found.messages.readonly, "it is stamped in place"


@pytest.mark.parametrize("sizes", [[100] * 50, [1, 50, 7, 900], [700]])
def test_a_batch_in_the_arena_crosses_as_its_place(sizes):
    pool = MemoryPool(8 * MIB)
    plain = batch_of([bytes([number]) * size for number, size in enumerate(sizes)])
    buffer = pool.acquire(plain.size + 64)
    messages = buffer.view[64 : 64 + plain.size]
    messages[:] = plain.messages
    batch = walk(messages)
    body = encode_append(PLACE, batch, NOW, buffer.position + 64)
    assert len(body) == LENT_BATCH.size, "no byte of a message crosses"
    asked: list[tuple[int, int, int]] = []

    def lent(peer: int, position: int, length: int) -> memoryview:
        asked.append((peer, position, length))
        return pool.view(position, length)

    append = decode_append(body, 2, lent)
    found = append.batch
    assert (append.namespace, append.now, append.client) == (PLACE, NOW, 0)
    assert asked == [(2, buffer.position + 64, plain.size)]
    assert found.ends.tolist() == plain.ends.tolist()
    assert found.equal_size == batch.equal_size
    found.messages[:8] = b"stamped!"
    assert bytes(messages[:8]) == b"stamped!", "it is the same memory"
    # With a client that may be answered, the byte in front of it comes along.
    append = decode_append(encode_append(PLACE, batch, NOW, buffer.position + 64, 77), 2, lent)
    assert append.client == 77
    assert bytes(append.batch.messages) == bytes(messages)
    append.mark[0] = 9
    assert buffer.view[63] == 9


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
    found, stretch = decode_polled(body, Files({5: other}), None)
    assert stretch is None
    assert found.current_offset == 99
    assert (found.reading.first_offset, found.reading.count, found.reading.left_out) == (40, 3, 1)
    assert found.reading.size == reading.size
    assert payloads_in(found.reading.materialise()) == [b"a", b"b", b"c"]
    assert len(body) < 200 + unsaved.size
    file.close()
    other.close()


def test_what_lies_behind_a_poll_crosses_as_places(tmp_path: Path):
    file = LenientMedium().open(tmp_path / "0.log", create=True)
    polled = Polled(Reading(40, 3, [FileRange(file, 200, 300)]), 99)
    body = encode_polled(polled, lambda _: 5, [700, 709])
    found, stretch = decode_polled(body, Files({5: file}), None)
    assert found.reading.ranges == [FileRange(file, 200, 300)]
    assert stretch == Stretch(40, 3, 5, [200, 500, 700, 709], 99)
    assert len(body) < 50
    file.close()


def twin_of(path: Path, messages: bytes) -> CompressedBody:
    path.write_bytes(b"".join(compress_frames(Compression.ZSTD, [messages])))
    file = LocalMedium().open(path, writable=False)
    return opened_twin(file, FrameCache())


def test_compressed_messages_cross_as_their_place(tmp_path: Path):
    """The shard that sends them inflates them, a slice at a time."""
    stored = batch_of([bytes([number]) * 1000 for number in range(100)])
    twin = twin_of(tmp_path / "0.log.zst", bytes(stored.messages))
    plain = tmp_path / "1.log"
    plain.write_bytes(bytes(batch_of([b"plain"]).messages))
    file = LocalMedium().open(plain, writable=False)
    tail: list[memoryview | Produced] = [
        PartSlices(twin, 0, stored.size),
        FileSlices(FileRange(file, 0, plain.stat().st_size)),
        batch_of([b"unsaved"]).messages,
    ]
    reading = Reading(7, 102, [], tail)
    numbers = {twin.path: 1, plain: 2}
    body = encode_polled(Polled(reading, 108), lambda one: numbers[one.path])
    assert len(body) < 300, "no byte of them crosses but those in no file"
    received = ReceivedFiles(FrameCache())
    for path, number in numbers.items():
        received.add(Announcement(number, str(path)), os.open(path, os.O_RDONLY))
    found, _ = decode_polled(body, received, None)
    assert found.reading.must_be_checked
    assert found.reading.size == reading.size
    assert found.reading.materialise() == reading.materialise()
    assert received.twin(1) is received.twin(1), "it is opened once"
    received.drop([1])
    with pytest.raises(InvalidFormat):
        received.twin(1)
    received.clear()
    file.close()
    twin.close()


def test_encrypted_messages_cross_as_they_are_stored(tmp_path: Path):
    """Every shard has the key, so the one that sends them decrypts them."""
    cipher = Cipher(base64.b64encode(b"k" * 32).decode())
    stored = encrypted(batch_of([b"secret-%d" % number for number in range(50)]), cipher)
    path = tmp_path / "0.log"
    path.write_bytes(bytes(stored.messages))
    file = LocalMedium().open(path, writable=False)
    inner = Reading(5, 50, [FileRange(file, 0, stored.size)])
    clear = b"".join(ClearSlices(inner, cipher, 0, frozenset()).slices())
    reading = Reading(5, 50, tail=[ClearSlices(inner, cipher, len(clear), frozenset({7}))])
    body = encode_polled(Polled(reading, 54), lambda _: 3)
    assert len(body) < 100
    found, _ = decode_polled(body, Files({3: file}), cipher)
    assert (found.reading.first_offset, found.reading.count) == (5, 50)
    assert found.reading.size == len(clear)
    (slices,) = found.reading.tail
    assert isinstance(slices, ClearSlices)
    assert slices.unreadable == {7}
    assert payloads_in(found.reading.materialise()) == [b"secret-%d" % n for n in range(50)]
    with pytest.raises(InvalidFormat, match="key"):
        decode_polled(body, Files({3: file}), None)
    file.close()


def test_an_empty_poll_crosses():
    body = encode_polled(Polled(Reading(), 3), lambda _: 0)
    found, stretch = decode_polled(body, Files({}), None)
    assert (found.reading.count, found.current_offset, stretch) == (0, 3, None)


def test_an_answer_that_cannot_be_read_is_refused():
    with pytest.raises(InvalidFormat, match="poll"):
        decode_polled(b"\x01\x00\x00\x00\xc1", Files({}), None)
