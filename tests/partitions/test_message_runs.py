"""The bytes of a poll, cut between messages."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.logs import numbered, payloads_in

from borzoi.model.errors import StorageFailure
from borzoi.partitions.message_runs import LargeMessage, runs, whole_messages

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


@given(st.lists(st.integers(0, len(MESSAGES)), max_size=20), st.integers(65, 6000))
def test_large_messages_come_in_pieces_between_the_others(cuts: list[int], large_min: int) -> None:
    ends = [*sorted(cuts), len(MESSAGES)]
    chunks = [MESSAGES[start:end] for start, end in pairwise([0, *ends])]
    found, larges = b"", 0
    for run in runs(chunks, 2, large_bytes_min=large_min):
        if isinstance(run, memoryview):
            assert len(payloads_in(run)) <= 2
            assert max(map(len, payloads_in(run))) + 64 < large_min
            found += run
        else:
            larges += 1
            found += run.header + b"".join(run.take(100)) + b"".join(run.rest())
    assert found == MESSAGES
    assert larges == sum(size + 64 >= large_min for size in SIZES)


def test_a_large_message_that_ends_too_early_is_a_fault() -> None:
    cut = MESSAGES[: 64 + 65 + 364 + 1000]
    found = runs([cut], 100, large_bytes_min=1000)
    first = next(found)
    assert isinstance(first, memoryview)
    assert len(payloads_in(first)) == 3
    large = next(found)
    assert isinstance(large, LargeMessage)
    with pytest.raises(StorageFailure, match="4064 bytes too early"):
        list(large.rest())
