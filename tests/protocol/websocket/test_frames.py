"""Frames in, a byte stream and control frames out; the oracle is another implementation."""

import secrets
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame
from websockets.frames import Opcode as TheirOpcode

from borzoi.protocol.websocket import frames


def frame(opcode: int, payload: bytes, *, final: bool = True, masked: bool = True) -> bytes:
    return Frame(TheirOpcode(opcode), payload, final).serialize(mask=masked)


def read(
    data: bytes, reader: frames.FrameReader, *, step: int | None = None
) -> tuple[bytes, list[frames.Control]]:
    """The stream and the control frames of the data, fed whole or in steps."""
    stream, controls = b"", []
    size = step or max(len(data), 1)
    for start in range(0, len(data), size):
        for event in reader.feed(memoryview(bytearray(data[start : start + size]))):
            if isinstance(event, frames.Control):
                controls.append(event)
            else:
                stream += event
    return stream, controls


PAYLOADS = st.binary(max_size=400) | st.integers(0, 70_000).map(secrets.token_bytes)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, bytes, list[frames.Control]]:
    """Bytes of a client, the stream they stand for, and its control frames."""
    data, stream, controls = b"", b"", []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from([frames.Opcode.BINARY, frames.Opcode.TEXT]))
        pieces = draw(st.lists(PAYLOADS, min_size=1, max_size=3))
        for number, piece in enumerate(pieces):
            opcode = kind if number == 0 else frames.Opcode.CONTINUATION
            data += frame(opcode, piece, final=number == len(pieces) - 1)
            if kind is frames.Opcode.BINARY:
                stream += piece
            if draw(st.booleans()):
                payload = draw(st.binary(max_size=125))
                control = draw(st.sampled_from([frames.Opcode.PING, frames.Opcode.PONG]))
                data += frame(control, payload)
                controls.append(frames.Control(control, payload))
    return data, stream, controls


@given(conversations(), st.sampled_from([None, 1, 7, 4096]))
def test_frames_are_a_stream_however_they_are_split(
    conversation: tuple[bytes, bytes, list[frames.Control]], step: int | None
) -> None:
    data, stream, controls = conversation
    reader = frames.FrameReader(frames.Limits())
    assert read(data, reader, step=step) == (stream, controls)
    assert not reader.inside_frame


@given(
    st.binary(min_size=4, max_size=4), st.integers(0, 3), st.integers(0, 3000), st.integers(0, 9)
)
def test_unmasking_is_what_the_rfc_says(mask: bytes, phase: int, size: int, shift: int) -> None:
    masked = secrets.token_bytes(size)
    room = memoryview(bytearray(shift + size))[shift:]
    room[:] = masked
    frames.unmask(room, mask, phase)
    assert bytes(room) == bytes(
        byte ^ mask[(phase + position) % 4] for position, byte in enumerate(masked)
    )


def test_bytes_may_be_received_where_they_belong() -> None:
    reader = frames.FrameReader(frames.Limits())
    payload = secrets.token_bytes(1000)
    data = frame(frames.Opcode.BINARY, payload)
    head = len(data) - len(payload)
    assert read(data[: head + 10], reader) == (payload[:10], [])
    assert reader.stream_bytes_next == 990
    place = memoryview(bytearray(data[head + 10 :]))
    reader.take(place[:333])
    reader.take(place[333:])
    assert bytes(place) == payload[10:]
    assert reader.stream_bytes_next == 0
    assert not reader.inside_frame


def test_what_is_under_way_is_known() -> None:
    reader = frames.FrameReader(frames.Limits())
    assert not reader.inside_frame
    data = frame(frames.Opcode.BINARY, b"half", final=False)
    for part in (data[:1], data[1:5], data[5:]):
        read(part, reader)
        assert reader.inside_frame  # even between two fragments of a message
    read(frame(frames.Opcode.CONTINUATION, b""), reader)
    assert not reader.inside_frame


PROTOCOL, BIG = frames.CloseCode.PROTOCOL_ERROR, frames.CloseCode.TOO_BIG
SMALL = frames.Limits(message_bytes_max=100, frame_bytes_max=60)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xc2\x80\0\0\0\0", PROTOCOL),  # a reserved bit
        (b"\xf2\x80\0\0\0\0", PROTOCOL),
        (frame(frames.Opcode.BINARY, b"x", masked=False), PROTOCOL),
        (b"\x82\x7e\x00\x01", PROTOCOL),  # not masked, and not even complete
        (b"\x83\x80\0\0\0\0", PROTOCOL),  # an unknown opcode
        (b"\x8b\x80\0\0\0\0", PROTOCOL),
        (b"\x09\x80\0\0\0\0", PROTOCOL),  # a ping in fragments
        (b"\x89\xfe\x00\x7e\0\0\0\0", PROTOCOL),  # a ping of 126 bytes
        (frame(frames.Opcode.CONTINUATION, b"x"), PROTOCOL),
        (
            frame(frames.Opcode.BINARY, b"x", final=False) + frame(frames.Opcode.BINARY, b"y"),
            PROTOCOL,
        ),
        (frame(frames.Opcode.BINARY, bytes(61)), BIG),
        (b"\x82\xff" + b"\xff" * 8 + bytes(4), BIG),  # 2^64 - 1 bytes
        (
            frame(frames.Opcode.BINARY, bytes(60), final=False)
            + frame(frames.Opcode.CONTINUATION, bytes(41)),
            BIG,
        ),
    ],
    ids=range(13),
)
@pytest.mark.parametrize("step", [None, 1])
def test_what_breaks_the_protocol_is_told_by_its_code(
    data: bytes, code: frames.CloseCode, step: int | None
) -> None:
    with pytest.raises(frames.FrameFault) as fault:
        read(data, frames.FrameReader(SMALL), step=step)
    assert fault.value.code is code


def test_limits_may_be_reached() -> None:
    data = frame(frames.Opcode.BINARY, bytes(60), final=False) + frame(
        frames.Opcode.CONTINUATION, bytes(40)
    )
    assert read(data, frames.FrameReader(SMALL)) == (bytes(100), [])


def test_unmasked_frames_are_taken_where_the_operator_says_so() -> None:
    reader = frames.FrameReader(frames.Limits(accept_unmasked=True))
    data = frame(frames.Opcode.BINARY, b"plain", masked=False) + frame(
        frames.Opcode.BINARY, b" and masked"
    )
    assert read(data, reader, step=3) == (b"plain and masked", [])


@given(st.binary(max_size=300), st.sampled_from([None, 1]))
def test_garbage_is_read_or_refused_and_nothing_else(data: bytes, step: int | None) -> None:
    try:
        read(data, frames.FrameReader(frames.Limits()), step=step)
    except frames.FrameFault:
        return


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1 << 20])
def test_heads_of_ours_are_theirs(size: int) -> None:
    theirs = frame(frames.Opcode.BINARY, bytes(size), masked=False)
    assert frames.frame_head(frames.Opcode.BINARY, size) + bytes(size) == theirs


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1 << 20])
def test_what_a_client_masks_is_read(size: int) -> None:
    payload = bytes(number % 251 for number in range(size))
    head, masked = frames.masked_frame(
        frames.Opcode.BINARY, bytearray(payload), b"\x01\x02\x83\x04"
    )
    reader = frames.FrameReader(frames.Limits())
    pieces: list[Any] = list(reader.feed(memoryview(bytearray(head + masked))))
    assert b"".join(pieces) == payload
    assert not reader.inside_frame
    assert masked != payload or not size


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", 1000),
        (b"\x03\xe8", 1000),
        (b"\x03\xe9because", 1001),
        (b"\x0b\xb8", 3000),
        (b"\x13\x87", 4999),
        (b"\x03", 1002),  # half a code
        (b"\x03\xed", 1002),  # 1005 is never said
        (b"\x03\xf7", 1002),  # 1015 neither
        (b"\x00\x00", 1002),
        (b"\x13\x88", 1002),
    ],
)
def test_a_close_is_answered_with_its_code_or_with_what_is_wrong(payload: bytes, code: int) -> None:
    assert frames.close_reply(payload) == b"\x88\x02" + code.to_bytes(2, "big")
    assert frames.close_frame(frames.CloseCode.GOING_AWAY) == b"\x88\x02\x03\xe9"
