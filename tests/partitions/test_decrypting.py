"""Encrypted polls, a slice at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.lenient import LenientMedium
from tests.support.logs import batch_of, numbered, payloads_in

from borzoi.model.errors import StorageFailure
from borzoi.partitions.decrypting import (
    KEPT_BYTES_MAX,
    SLICE_MESSAGES,
    clear_bodies_found_out,
    is_decrypted_at_once,
    whole_messages,
    with_clear_bodies,
)
from borzoi.partitions.encrypting import encrypted
from borzoi.partitions.turns import Work
from borzoi.records.batch import stamp
from borzoi.security.encryption import Cipher
from borzoi.storage.reading import SLICE_BYTES, FileRange, Produced, Reading

CIPHER = Cipher("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
T = TypeVar("T")


def sealed(payloads: list[bytes], base_offset: int = 0) -> memoryview:
    batch = encrypted(batch_of(payloads), CIPHER)
    stamp(batch, base_offset=base_offset, timestamp=1, new_ids=lambda count: b"\1" * 16 * count)
    return batch.messages


def finished(work: Work[T]) -> tuple[T, int]:
    """What comes of the work, and in how many shares."""
    shares = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found, shares
        shares += 1


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
    assert shares >= len(payloads) / SLICE_MESSAGES
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


SIZES = (0, 1, 300, 5000, 0, 0, 70)
MESSAGES = bytes(numbered([b"x" * size for size in SIZES], base_offset=0, timestamp=1).messages)


@given(st.lists(st.integers(0, len(MESSAGES)), max_size=20))
def test_chunks_are_cut_between_messages(cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(MESSAGES)]

    def chunks() -> Iterator[bytes]:
        start = 0
        for end in ends:
            yield MESSAGES[start:end]
            start = end

    runs = [bytes(run) for run in whole_messages(chunks())]
    assert b"".join(runs) == MESSAGES
    assert [payload for run in runs for payload in payloads_in(run)] == payloads_in(MESSAGES)


def test_half_a_message_at_the_end_is_a_fault() -> None:
    with pytest.raises(StorageFailure, match="behind the last whole message"):
        list(whole_messages([MESSAGES[:-1]]))
