import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.records.batch import stamp, walk
from borzoi.records.header import HEADER
from borzoi.storage.index import entries_of
from borzoi.storage.scanning import CHUNK_BYTES
from borzoi.tools.soundness import Lost, Sound, look_through

START = 100


def segment(sizes: list[int], start: int = START) -> tuple[bytes, bytes, list[int]]:
    """Messages with these payload sizes, their index, and where each ends."""
    draws = random.Random(len(sizes))
    messages = bytearray()
    for size in sizes:
        messages += HEADER.pack(0, draws.randbytes(16), 0, 0, 9, 0, size, 0) + draws.randbytes(size)
    batch = walk(memoryview(messages))
    stamp(batch, base_offset=start, timestamp=1000, new_ids=lambda count: bytes(16 * count))
    index = entries_of(batch, relative_offset=0, position=0)
    return bytes(messages), index, [int(end) for end in batch.ends]


def looked_at(content: bytes, index: bytes = b"", start: int = START):
    def read(length: int, position: int) -> bytes:
        return content[position : position + length]

    return list(look_through(read, len(content), start, index))


def sound_offsets(found) -> list[int]:
    return [int(o) for run in found if isinstance(run, Sound) for o in run.batch.offsets()]


def test_an_empty_segment_has_nothing_to_look_at():
    assert looked_at(b"") == []


def test_a_sound_segment_is_one_run_whose_entries_are_its_index():
    content, index, _ = segment([10, 0, 300])
    (run,) = looked_at(content)
    assert isinstance(run, Sound)
    assert (run.first_offset, run.position, run.batch.size) == (START, 0, len(content))
    assert run.entries(START) == index


def test_messages_larger_than_a_chunk_are_looked_at_whole():
    content, index, _ = segment([10, CHUNK_BYTES + 5, 10, CHUNK_BYTES, 7])
    found = looked_at(content)
    assert sound_offsets(found) == list(range(START, START + 5))
    assert b"".join(run.entries(START) for run in found) == index


@pytest.mark.parametrize("with_index", [False, True])
def test_every_flipped_bit_costs_exactly_its_own_message(with_index):
    content, index, ends = segment([30, 0, 50, 20])
    starts = [0, *ends[:-1]]
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        hit = next(i for i, end in enumerate(ends) if bit // 8 < end)
        found = looked_at(bytes(damaged), index if with_index else b"")
        lost = [run for run in found if isinstance(run, Lost)]
        assert len(lost) == 1
        assert (lost[0].position, lost[0].first_offset) == (starts[hit], START + hit)
        kept = [START + i for i in range(4) if i != hit]
        assert sound_offsets(found) == kept
        if hit < 3 or with_index:
            assert (lost[0].count, lost[0].length) == (1, ends[hit] - starts[hit])


@given(st.lists(st.integers(0, 200), min_size=1, max_size=12), st.integers(0, 2**32))
def test_every_byte_belongs_to_exactly_one_run(sizes, seed):
    draws = random.Random(seed)
    content, index, _ = segment(sizes)
    damaged = bytearray(content)
    for _ in range(draws.randrange(6)):
        damaged[draws.randrange(len(damaged))] ^= 1 << draws.randrange(8)
    cut = damaged[: draws.randrange(len(damaged) + 1)] + bytes(draws.choice([0, 0, 3, 100]))
    found = looked_at(bytes(cut), draws.choice([b"", index, index[:-7]]))
    position = 0
    for run in found:
        assert run.position == position
        position += run.batch.size if isinstance(run, Sound) else run.length
    assert position == len(cut)
    assert sound_offsets(found) == sorted(set(sound_offsets(found)))


def test_zeros_behind_the_messages_are_told_apart_from_damage():
    content, _, _ = segment([10, 10])
    for zeros in (1, 64, 5000, 3 << 20):
        *_, lost = looked_at(content + bytes(zeros))
        assert (lost.is_blank, lost.count, lost.length) == (True, None, zeros)
    *_, lost = looked_at(content + bytes(100) + b"\x01")
    assert not lost.is_blank


def test_without_an_index_the_next_messages_are_found_by_their_offsets():
    content, _, ends = segment([40] * 6)
    damaged = bytearray(content)
    # The lengths of message 1 are gone, and so is all of message 2.
    damaged[ends[0] + 52] ^= 0xFF
    damaged[ends[1] : ends[2]] = random.Random(3).randbytes(ends[2] - ends[1])
    found = looked_at(bytes(damaged))
    assert sound_offsets(found) == [START, START + 3, START + 4, START + 5]
    (lost,) = [run for run in found if isinstance(run, Lost)]
    assert (lost.first_offset, lost.count, lost.length) == (START + 1, 2, ends[2] - ends[0])


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, b"\x00" * 8, "checksum does not fit"),
        (24, b"\x07" + bytes(7), "checksum does not fit"),
        (52, b"\xff\xff\xff\x7f", "lengths ask for"),
        (56, b"\x01", "reserved field is not zero"),
    ],
)
def test_the_reason_says_what_is_wrong(place, value, reason):
    content, index, _ = segment([40, 40])
    damaged = bytearray(content)
    damaged[place : place + len(value)] = value
    lost = looked_at(bytes(damaged), index)[0]
    assert reason in lost.reason


def test_a_whole_message_in_the_wrong_place_is_named_by_both_offsets():
    content, _, _ = segment([40], start=7)
    (lost,) = looked_at(content)
    assert lost.reason == f"it says it is message 7, message {START} is expected"


def test_an_index_that_is_wrong_itself_is_not_believed():
    content, index, ends = segment([40] * 4)
    damaged = bytearray(content)
    damaged[ends[0] + 70] ^= 1
    for place in (16, 20, 4):
        wrong = bytearray(index)
        wrong[place] ^= 0x40
        assert sound_offsets(looked_at(bytes(damaged), bytes(wrong))) == [
            START,
            START + 2,
            START + 3,
        ]
