"""Answers are found in a stream that is cut anywhere, small and large ones mixed."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.options import Address
from borzoi.client.receiving import SMALL_BYTES, AnswerReceiver
from borzoi.model.errors import InvalidVersion
from borzoi.protocol.framing import RESPONSE_PREFIX, ResponseFrame, encode_response

ADDRESS = Address("h", 1)
sizes = st.sampled_from(
    [0, 2, 40, 4096, SMALL_BYTES // 2 - 8, SMALL_BYTES // 2 - 7, 3 * SMALL_BYTES]
)


def fed(receiver: AnswerReceiver, data: bytes, most: int) -> list[Any]:
    """The answers in the data, received in pieces of at most this many bytes."""
    answers: list[Any] = []
    rest = memoryview(data)
    while rest:
        space = receiver.space()
        assert len(space) > 0
        count = min(len(space), most, len(rest))
        space[:count] = rest[:count]
        rest = rest[count:]
        answers += receiver.received(count)
    return answers


def memory_of(answer: ResponseFrame) -> object:
    assert isinstance(answer.payload, memoryview)
    return answer.payload.obj


@given(st.lists(sizes, max_size=6), st.sampled_from([1000, 65_536, 10**9]))
def test_answers_survive_any_cutting(lengths: list[int], most: int) -> None:
    payloads = [bytes([number + 1]) * length for number, length in enumerate(lengths)]
    stream = b"".join(encode_response(0, payload) for payload in payloads)
    answers = fed(AnswerReceiver(ADDRESS), stream, most)
    assert [bytes(answer.payload) for answer in answers] == payloads


def test_byte_by_byte() -> None:
    stream = encode_response(0, b"abc") + encode_response(42) + encode_response(0, b"de")
    answers = fed(AnswerReceiver(ADDRESS), stream, 1)
    assert answers == [(0, b"abc"), (42, b""), (0, b"de")]


def test_memory_of_which_no_view_is_left_is_used_again() -> None:
    receiver = AnswerReceiver(ADDRESS)
    large = encode_response(0, b"1" * 3 * SMALL_BYTES)
    (first,) = fed(receiver, large, 10**9)
    memory = first.payload.obj
    kept = first.payload[100:200]
    del first
    (second,) = fed(receiver, encode_response(0, b"2" * 2 * SMALL_BYTES), 10**9)
    assert second.payload.obj is not memory
    assert bytes(kept) == b"1" * 100
    del kept
    (third,) = fed(receiver, large, 10**9)
    assert third.payload.obj is memory
    assert bytes(third.payload) == b"1" * 3 * SMALL_BYTES
    assert bytes(second.payload) == b"2" * 2 * SMALL_BYTES
    (fourth,) = fed(receiver, large, 10**9)
    assert fourth.payload.obj is not memory
    assert bytes(third.payload) == b"1" * 3 * SMALL_BYTES


def test_an_answer_after_a_large_one_is_received_where_it_is_read() -> None:
    receiver = AnswerReceiver(ADDRESS)
    large = encode_response(0, b"1" * 3 * SMALL_BYTES)
    fed(receiver, large, 10**9)
    space = receiver.space()
    assert len(space) > len(large)
    space[: len(large)] = large
    (answer,) = receiver.received(len(large))
    assert memory_of(answer) is space.obj
    assert bytes(answer.payload) == b"1" * 3 * SMALL_BYTES
    del space, answer
    assert fed(receiver, encode_response(0, b"small"), 10**9) == [(0, b"small")]
    assert len(receiver.space()) == SMALL_BYTES


def test_large_answers_that_arrive_together_are_views_and_what_follows_moves() -> None:
    receiver = AnswerReceiver(ADDRESS)
    fed(receiver, encode_response(0, b"0" * 8 * SMALL_BYTES), 10**9)
    payloads = [bytes([number]) * 3 * SMALL_BYTES for number in (1, 2, 3)]
    stream = b"".join(map(partial(encode_response, 0), payloads))
    space = receiver.space()
    count = len(space)
    assert 2 * len(stream) // 3 < count < len(stream)
    space[:] = stream[:count]
    answers = receiver.received(count)
    assert [memory_of(answer) for answer in answers] == [space.obj] * 2
    assert receiver.missing == len(stream) - count
    answers += fed(receiver, stream[count:], 10**9)
    assert [bytes(answer.payload) for answer in answers] == payloads
    assert memory_of(answers[2]) is not space.obj


@pytest.mark.parametrize(
    ("status", "length"), [(100_001, 0), (5, 2), (0, 2**32 - 1), (0x50545448, 0x312E312F)]
)
def test_numbers_that_no_server_sends_are_refused(status: int, length: int) -> None:
    receiver = AnswerReceiver(ADDRESS)
    with pytest.raises(InvalidVersion, match="h:1 does not speak"):
        fed(receiver, RESPONSE_PREFIX.pack(status, length), 8)
