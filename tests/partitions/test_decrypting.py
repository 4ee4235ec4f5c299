"""Encrypted polls, a slice at a time."""

import random
from pathlib import Path

import pytest
from tests.support.lenient import LenientMedium
from tests.support.logs import batch_of, numbered, payloads_in
from tests.support.partitions import CIPHER
from tests.support.work import finished

from borzoi.model.errors import StorageFailure
from borzoi.partitions.decrypting import (
    KEPT_BYTES_MAX,
    LARGE_BYTES_MIN,
    clear_bodies_found_out,
    is_decrypted_at_once,
    with_clear_bodies,
)
from borzoi.partitions.encrypting import encrypted
from borzoi.partitions.message_runs import RUN_MESSAGES
from borzoi.records.batch import stamp, walk
from borzoi.records.header import HEADER
from borzoi.storage.reading import SLICE_BYTES, FileRange, Produced, Reading


def sealed(payloads: list[bytes], base_offset: int = 0) -> memoryview:
    batch = encrypted(batch_of(payloads), CIPHER)
    stamp(batch, base_offset=base_offset, timestamp=1, new_ids=lambda count: b"\1" * 16 * count)
    return batch.messages


def test_bodies_are_decrypted_and_what_no_key_opens_is_left_out() -> None:
    first = sealed([b"a", b"b"], 10)
    plain = numbered([b"stored before there was a key"], base_offset=12, timestamp=1)
    reading = Reading(10, 3, tail=[first, plain.messages])
    clear = with_clear_bodies(reading, CIPHER)
    assert payloads_in(clear.materialise()) == [b"a", b"b"]
    assert (clear.count, clear.left_out, clear.last_offset) == (2, 1, 12)


def test_nothing_is_nothing_with_any_key() -> None:
    assert with_clear_bodies(Reading(5), CIPHER).count == 0


def of_file(tmp_path: Path, messages: memoryview, count: int) -> Reading:
    path = tmp_path / "log"
    path.write_bytes(messages)
    part = FileRange(LenientMedium().open(path, writable=False), 0, len(messages))
    return Reading(0, count, [part])


@pytest.mark.parametrize("size", [10, 100_000, 2_000_000])
def test_a_long_poll_is_decrypted_while_it_is_sent(tmp_path: Path, size: int) -> None:
    payloads = [bytes([number % 256]) * size for number in range(2 * KEPT_BYTES_MAX // (size + 64))]
    stored = sealed(payloads)
    reading = of_file(tmp_path, stored, len(payloads))
    assert not is_decrypted_at_once(reading)
    clear, shares = finished(clear_bodies_found_out(reading, CIPHER))
    (part,) = clear.tail
    assert isinstance(part, Produced)
    assert shares >= len(payloads) / RUN_MESSAGES
    slices = [bytes(one) for one in part.slices()]
    assert max(map(len, slices)) <= max(2 * SLICE_BYTES, SLICE_BYTES + size + 64)
    assert payloads_in(b"".join(slices)) == payloads
    assert (clear.count, clear.size) == (len(payloads), sum(map(len, slices)))


def test_a_poll_of_some_megabytes_is_decrypted_once(tmp_path: Path) -> None:
    payloads = [b"x" * 1000] * 2000
    reading = of_file(tmp_path, sealed(payloads), len(payloads))
    clear, _ = finished(clear_bodies_found_out(reading, CIPHER))
    assert not clear.must_be_checked
    assert payloads_in(clear.materialise()) == payloads


def test_what_no_key_opens_does_not_count_in_a_long_poll(tmp_path: Path) -> None:
    payloads = [b"x" * 1000] * 9000
    plain = numbered([b"before there was a key"] * 600, base_offset=9000, timestamp=1)
    reading = of_file(tmp_path, memoryview(bytes(sealed(payloads)) + plain.messages), 9600)
    clear, _ = finished(clear_bodies_found_out(reading, CIPHER))
    assert (clear.count, clear.left_out, clear.last_offset) == (9000, 600, 9599)
    assert payloads_in(clear.materialise()) == payloads


def test_nothing_can_be_opened(tmp_path: Path) -> None:
    plain = numbered([b"x" * 1000] * 600, base_offset=0, timestamp=1)
    clear, _ = finished(clear_bodies_found_out(of_file(tmp_path, plain.messages, 600), CIPHER))
    assert (clear.count, clear.left_out, clear.size) == (0, 600, 0)


#: Of a message that is never held whole; not a multiple of anything.
LARGE = LARGE_BYTES_MIN + 12_345


def large(payload: bytes, headers: bytes = b"", offset: int = 0) -> bytes:
    """One stored message, encrypted."""
    header = HEADER.pack(0, b"\1" * 16, offset, 0, 77, len(headers), len(payload), 0)
    batch = encrypted(walk(memoryview(bytearray(header + payload + headers))), CIPHER)
    stamp(batch, base_offset=offset, timestamp=1, new_ids=lambda count: b"\1" * 16 * count)
    return bytes(batch.messages)


@pytest.mark.parametrize("headers", [b"", b"h" * 1000])
@pytest.mark.parametrize("in_file", [False, True])
def test_a_large_message_is_opened_slice_by_slice(
    tmp_path: Path, headers: bytes, in_file: bool
) -> None:
    payload = random.Random(1).randbytes(LARGE)
    stored = bytes(sealed([b"before"])) + large(payload, headers, 1) + bytes(sealed([b"behind"], 2))
    reading = Reading(0, 3, tail=[memoryview(stored)])
    if in_file:
        reading = of_file(tmp_path, memoryview(stored), 3)
    clear, shares = finished(clear_bodies_found_out(reading, CIPHER))
    (part,) = clear.tail
    assert isinstance(part, Produced)
    slices = [bytes(one) for one in part.slices()]
    assert shares >= LARGE // SLICE_BYTES
    assert max(map(len, slices)) <= SLICE_BYTES
    whole = memoryview(b"".join(slices))
    assert (clear.count, clear.left_out, clear.size) == (3, 0, len(whole))
    bodies = [bytes(whole[start + 64 : end]) for start, end in walk(whole).bounds()]
    assert bodies == [b"before", payload + headers, b"behind"]


def test_a_large_message_that_no_key_opens_is_left_out(tmp_path: Path) -> None:
    damaged = bytearray(large(bytes(LARGE), offset=1))
    damaged[-1] ^= 1
    plain = numbered([bytes(LARGE)], base_offset=3, timestamp=1).messages
    stored = b"".join(
        (sealed([b"0"]), damaged, large(b"x" * LARGE, offset=2), plain, sealed([b"4"], 4))
    )
    reading = of_file(tmp_path, memoryview(stored), 5)
    clear, _ = finished(clear_bodies_found_out(reading, CIPHER))
    assert (clear.count, clear.left_out, clear.last_offset) == (3, 2, 4)
    assert payloads_in(clear.materialise()) == [b"0", b"x" * LARGE, b"4"]


def test_a_large_message_without_room_for_a_tag_was_never_encrypted(tmp_path: Path) -> None:
    """Its user headers are large, its payload is shorter than any ciphertext."""
    header = HEADER.pack(0, b"\1" * 16, 0, 0, 77, LARGE, 3, 0)
    reading = of_file(tmp_path, memoryview(header + bytes(3 + LARGE)), 1)
    clear, _ = finished(clear_bodies_found_out(reading, CIPHER))
    assert (clear.count, clear.left_out, clear.size) == (0, 1, 0)


def test_a_large_message_that_changes_while_it_is_sent_ends_the_answer(tmp_path: Path) -> None:
    stored = large(bytes(LARGE))
    reading = of_file(tmp_path, memoryview(stored), 1)
    clear, _ = finished(clear_bodies_found_out(reading, CIPHER))
    (tmp_path / "log").write_bytes(stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(StorageFailure, match="changed while it was polled"):
        clear.materialise()
