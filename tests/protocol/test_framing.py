"""Frames in a stream cut anywhere, and what a bad prefix does to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_strategies import chunks, requests

from borzoi.model.errors import InvalidCommand
from borzoi.model.limits import CONTROL_PAYLOAD_BYTES_MAX
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.framing import (
    REQUEST_PREFIX,
    RESPONSE_PREFIX,
    PendingRequest,
    RequestDecoder,
    RequestFrame,
    ResponseDecoder,
    ResponseFrame,
    encode_request,
    encode_response,
)

PING = encode_request(Ping())


def send_frame(payload: bytes) -> bytes:
    return REQUEST_PREFIX.pack(4 + len(payload), Code.SEND_MESSAGES) + payload


def drained(decoder: RequestDecoder) -> list[RequestFrame]:
    return list(iter(decoder.next_request, None))


def test_a_request_is_length_code_payload():
    assert bytes.fromhex("0400000001000000") == PING
    assert encode_request(CreateStream("s1")) == bytes.fromhex("07000000ca000000027331")


def test_a_response_is_status_length_payload():
    assert encode_response(0) == bytes(8)
    assert encode_response(1012) == bytes.fromhex("f403000000000000")
    assert encode_response(0, b"\x00\x00\x00\x00") == bytes.fromhex("000000000400000000000000")
    assert encode_response(0, memoryview(b"abc"))[8:] == b"abc"


def test_no_answer_has_one_byte_and_no_error_has_a_payload():
    with pytest.raises(AssertionError):
        encode_response(0, b"x")
    with pytest.raises(AssertionError):
        encode_response(3, b"why")


@given(st.lists(requests(), max_size=6), st.data())
def test_requests_survive_any_chunking(sent, data):
    decoder, got = RequestDecoder(), []
    for chunk in data.draw(chunks(b"".join(map(encode_request, sent)))):
        decoder.feed(chunk)
        got += [decode_request(frame.code, frame.payload) for frame in drained(decoder)]
    assert got == sent


RESPONSES = st.tuples(
    st.integers(0, 2**32 - 1), st.binary(max_size=40) | st.integers(4090, 9000).map(bytes)
)


@given(st.lists(RESPONSES, max_size=6), st.data())
def test_responses_survive_any_chunking(sent, data):
    stream = b"".join(
        RESPONSE_PREFIX.pack(status, len(payload)) + payload for status, payload in sent
    )
    decoder = ResponseDecoder()
    got: list[ResponseFrame] = []
    for chunk in data.draw(chunks(stream)):
        decoder.feed(chunk)
        got += iter(decoder.next_response, None)
    assert got == sent


@given(st.lists(st.integers(0, 9000), min_size=1, max_size=8), st.data())
def test_sends_survive_any_chunking_and_are_writable(sizes, data):
    sent = [index.to_bytes(1) * size for index, size in enumerate(sizes)]
    decoder, got = RequestDecoder(), []
    for chunk in data.draw(chunks(b"".join(map(send_frame, sent)) + PING)):
        decoder.feed(chunk)
        got += drained(decoder)
    assert got.pop() == (Code.PING, b"")
    assert [frame.payload for frame in got] == sent
    for frame in got:
        assert isinstance(frame.payload, memoryview)
        frame.payload[:] = bytes(len(frame.payload))


def test_a_send_that_fills_the_buffer_is_handed_over_without_a_copy():
    decoder = RequestDecoder()
    decoder.feed(send_frame(b"m" * 100_000)[:50_000])
    assert decoder.next_request() is None
    decoder.feed(send_frame(b"m" * 100_000)[50_000:])
    received = decoder._bytes
    frame = decoder.next_request()
    assert frame is not None
    assert isinstance(frame.payload, memoryview)
    assert frame.payload.obj is received


def test_payloads_handed_out_do_not_change_when_more_arrives():
    decoder = RequestDecoder()
    decoder.feed(encode_request(GetStream("one")) + send_frame(b"12345678") + PING)
    got = drained(decoder)
    decoder.feed(b"\xff" * 3)
    assert [bytes(frame.payload) for frame in got] == [b"\x02\x03one", b"12345678", b""]


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("code", [Code.PING, Code.SEND_MESSAGES, 9999])
def test_a_length_below_four_costs_eight_bytes_and_the_stream_stays_in_sync(length, code):
    decoder = RequestDecoder()
    decoder.feed(REQUEST_PREFIX.pack(length, code) + PING)
    with pytest.raises(InvalidCommand, match="length"):
        decoder.next_request()
    assert decoder.in_sync
    assert drained(decoder) == [(Code.PING, b"")]


@pytest.mark.parametrize("code", [Code.GET_STREAM, 9999])
def test_a_control_request_beyond_ten_mebibytes_is_refused_by_its_prefix(code):
    decoder = RequestDecoder()
    decoder.feed(REQUEST_PREFIX.pack(4 + CONTROL_PAYLOAD_BYTES_MAX + 1, code))
    with pytest.raises(InvalidCommand, match="too many"):
        decoder.next_request()
    assert not decoder.in_sync
    decoder.feed(PING)
    assert decoder.next_request() is None


def test_a_control_request_of_ten_mebibytes_is_read():
    decoder = RequestDecoder()
    decoder.feed(REQUEST_PREFIX.pack(4 + CONTROL_PAYLOAD_BYTES_MAX, Code.PING))
    assert decoder.next_request() is None
    decoder.feed(bytes(CONTROL_PAYLOAD_BYTES_MAX))
    frame = decoder.next_request()
    assert frame is not None
    assert len(frame.payload) == CONTROL_PAYLOAD_BYTES_MAX
    assert decoder.in_sync


def test_an_announced_length_takes_no_memory():
    decoder = RequestDecoder()
    decoder.feed(REQUEST_PREFIX.pack(2**32 - 1, Code.SEND_MESSAGES) + b"abc")
    assert decoder.next_request() is None
    assert len(decoder._bytes) == 11
    answers = ResponseDecoder()
    answers.feed(RESPONSE_PREFIX.pack(0, 2**32 - 1))
    assert answers.next_response() is None


def test_a_pending_request_can_be_looked_at_before_it_is_whole():
    decoder = RequestDecoder()
    assert decoder.pending() is None
    decoder.feed(send_frame(b"123456")[:11])
    assert decoder.next_request() is None
    assert decoder.pending() == PendingRequest(Code.SEND_MESSAGES, 6, 3)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 64])
def test_a_pending_request_can_be_skipped_as_it_arrives(step):
    decoder = RequestDecoder()
    wire = send_frame(b"x" * 20) + PING
    decoder.feed(PING + wire[:11])
    assert drained(decoder) == [(Code.PING, b"")]
    decoder.skip_pending()
    assert decoder.pending() is None
    got = []
    for start in range(11, len(wire), step):
        decoder.feed(wire[start : start + step])
        got += drained(decoder)
    assert got == [(Code.PING, b"")]


def test_a_whole_request_is_not_skipped():
    decoder = RequestDecoder()
    decoder.feed(PING)
    with pytest.raises(AssertionError):
        decoder.skip_pending()


def test_small_answers_are_bytes_and_large_ones_views():
    decoder = ResponseDecoder()
    decoder.feed(encode_response(0, bytes(4096)) + encode_response(0, bytes(4097)))
    kinds = [type(frame.payload) for frame in iter(decoder.next_response, None)]
    assert kinds == [bytes, memoryview]


def test_an_error_in_front_of_an_answer_keeps_the_stream_in_sync():
    decoder = ResponseDecoder()
    decoder.feed(encode_response(1012) + encode_response(0, encode_payload(GetStream(1))))
    assert decoder.next_response() == ResponseFrame(1012, b"")
    assert decoder.next_response() == (0, b"\x01\x04\x01\x00\x00\x00")
    assert decoder.next_response() is None


@given(st.binary(max_size=200), st.data())
def test_garbage_is_a_frame_or_an_error_of_ours(garbage, data):
    decoder, answers = RequestDecoder(), ResponseDecoder()
    for chunk in data.draw(chunks(garbage)):
        decoder.feed(chunk)
        answers.feed(chunk)
        for _ in garbage:
            try:
                decoder.next_request()
            except InvalidCommand:
                continue
            answers.next_response()
