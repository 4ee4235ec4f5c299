"""Frames in a stream cut anywhere, and what a bad prefix does to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_strategies import chunks

from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.framing import (
    RESPONSE_PREFIX,
    ResponseDecoder,
    ResponseFrame,
    encode_request,
    encode_response,
)

PING = encode_request(Ping())


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


def test_an_announced_length_takes_no_memory():
    decoder = ResponseDecoder()
    decoder.feed(RESPONSE_PREFIX.pack(0, 2**32 - 1) + b"abc")
    assert decoder.next_response() is None
    assert len(decoder._bytes) == 11


@given(st.binary(max_size=200), st.data())
def test_garbage_is_answers_or_waited_for(garbage, data):
    decoder, got = ResponseDecoder(), 0
    for chunk in data.draw(chunks(garbage)):
        decoder.feed(chunk)
        got += len(list(iter(decoder.next_response, None)))
    assert got <= len(garbage) // 8
