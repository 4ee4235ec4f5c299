import os
import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.server.config import load
from borzoi.server.control_messages import (
    AddressesBound,
    AllReady,
    Begin,
    Close,
    Drained,
    PeerJoined,
    PeerLost,
    Ready,
    Stop,
    StopAsked,
    control_pair,
    decode_to_shard,
    decode_to_supervisor,
    encode,
    receive,
    send,
)
from borzoi.server.declaring import parsed_section, shown_section
from borzoi.server.overrides import Override
from borzoi.server.placement import Seat
from borzoi.server.settings import Settings

ADDRESSES = {"tcp": ("127.0.0.1", 8090), "websocket": ("::1", 8092)}
BEGIN = Begin(
    shard=1,
    count=3,
    supervisor=1,
    peers=2,
    seat=Seat(4, 1),
    settings=shown_section(Settings(), secrets=True),
    source="the built-in defaults",
    overrides=(Override("BORZOI_TCP_ADDRESS", ("tcp", "address"), "127.0.0.1:0", False),),
    warnings=("the key x is not a setting",),
    default_credentials=True,
    follower=False,
    first_start=True,
)


@pytest.mark.parametrize(
    "message",
    [BEGIN, PeerJoined(2), PeerLost(0), AddressesBound(ADDRESSES), AllReady(), Stop(), Close()],
    ids=lambda message: type(message).__name__,
)
def test_what_a_shard_is_told_arrives_as_it_was_said(message) -> None:
    assert decode_to_shard(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [Ready(ADDRESSES), StopAsked(), Drained()],
    ids=lambda message: type(message).__name__,
)
def test_what_a_supervisor_is_told_arrives_as_it_was_said(message) -> None:
    assert decode_to_supervisor(encode(message)) == message


@given(st.binary(max_size=64))
def test_bytes_that_say_nothing_are_refused(packet: bytes) -> None:
    for decode in (decode_to_shard, decode_to_supervisor):
        try:
            decode(packet)
        except msgspec.DecodeError:
            continue


def test_no_side_takes_the_messages_of_the_other() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_to_shard(encode(Drained()))
    with pytest.raises(msgspec.ValidationError):
        decode_to_supervisor(encode(Stop()))


def test_settings_survive_the_way_with_their_secrets(tmp_path) -> None:
    settings = load(
        {
            "BORZOI_HTTP_JWT_ENCODING_SECRET": "kept",
            "BORZOI_TCP_ADDRESS": "[::1]:0",
            "BORZOI_SYSTEM_SEGMENT_SIZE": "1 MiB",
            "BORZOI_SYSTEM_TOPIC_MESSAGE_EXPIRY": "7 days",
            "BORZOI_HTTP_CORS_ALLOWED_ORIGINS": "a,b",
            "BORZOI_CLUSTER_NODE_OTHERS_0_NAME": "two",
            "BORZOI_SYSTEM_SHARDING_CPU_ALLOCATION": "3",
        },
        tmp_path,
    ).settings
    begin = msgspec.structs.replace(BEGIN, settings=shown_section(settings, secrets=True))
    arrived = decode_to_shard(encode(begin))
    assert isinstance(arrived, Begin)
    assert parsed_section(Settings, arrived.settings) == settings
    assert settings.http.jwt.encoding_secret == "kept"
    assert parsed_section(Settings, BEGIN.settings) == Settings()


def test_a_packet_comes_whole_with_its_descriptors() -> None:
    ours, theirs = control_pair()
    with ours, theirs:
        arena = os.memfd_create("arena", os.MFD_CLOEXEC)
        os.write(arena, b"in memory")
        near, far = socket.socketpair()
        send(ours, encode(PeerJoined(1)), (far.fileno(), arena))
        send(ours, encode(Stop()))
        far.close()
        os.close(arena)
        packet, (connection, memory) = receive(theirs)
        assert decode_to_shard(packet) == PeerJoined(1)
        assert os.pread(memory, 9, 0) == b"in memory"
        assert not os.get_inheritable(memory)
        with near, socket.socket(fileno=connection) as arrived:
            arrived.send(b"x")
            assert near.recv(1) == b"x"
        os.close(memory)
        assert receive(theirs) == (encode(Stop()), [])
        with pytest.raises(BlockingIOError):
            receive(theirs, wait=False)
        ours.close()
        assert receive(theirs) == (b"", [])
