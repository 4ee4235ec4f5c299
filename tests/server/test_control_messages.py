import os
import socket

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from borzoi import __version__
from borzoi.server import control_messages as messages
from borzoi.server.config import load
from borzoi.server.declaring import parsed_section, shown_section
from borzoi.server.overrides import Override
from borzoi.server.placement import Seat
from borzoi.server.settings import Settings

ADDRESSES = {"tcp": ("127.0.0.1", 8090), "websocket": ("::1", 8092)}
BEGIN = messages.Begin(
    version=__version__,
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
    [
        BEGIN,
        messages.PeerJoined(2),
        messages.PeerLost(0),
        messages.AddressesBound(ADDRESSES),
        messages.AllReady(),
        messages.Stop(),
        messages.Close(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_a_shard_is_told_arrives_as_it_was_said(message) -> None:
    assert messages.decode_to_shard(messages.encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [messages.Ready(ADDRESSES), messages.StopAsked(), messages.Drained()],
    ids=lambda message: type(message).__name__,
)
def test_what_a_supervisor_is_told_arrives_as_it_was_said(message) -> None:
    assert messages.decode_to_supervisor(messages.encode(message)) == message


@given(st.binary(max_size=64))
@example(b"\x91\xa1\x80").via("a name that is not UTF-8")
def test_bytes_that_say_nothing_are_refused(packet: bytes) -> None:
    for decode in (messages.decode_to_shard, messages.decode_to_supervisor):
        try:
            decode(packet)
        except msgspec.DecodeError:
            continue


def test_no_side_takes_the_messages_of_the_other() -> None:
    with pytest.raises(msgspec.ValidationError):
        messages.decode_to_shard(messages.encode(messages.Drained()))
    with pytest.raises(msgspec.ValidationError):
        messages.decode_to_supervisor(messages.encode(messages.Stop()))


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
    arrived = messages.decode_to_shard(messages.encode(begin))
    assert isinstance(arrived, messages.Begin)
    assert parsed_section(Settings, arrived.settings) == settings
    assert settings.http.jwt.encoding_secret == "kept"
    assert parsed_section(Settings, BEGIN.settings) == Settings()


def test_a_packet_comes_whole_with_its_descriptors() -> None:
    ours, theirs = messages.control_pair()
    with ours, theirs:
        arena = os.memfd_create("arena", os.MFD_CLOEXEC)
        os.write(arena, b"in memory")
        near, far = socket.socketpair()
        messages.send(ours, messages.encode(messages.PeerJoined(1)), (far.fileno(), arena))
        messages.send(ours, messages.encode(messages.Stop()))
        far.close()
        os.close(arena)
        packet, (connection, memory) = messages.receive(theirs)
        assert messages.decode_to_shard(packet) == messages.PeerJoined(1)
        assert os.pread(memory, 9, 0) == b"in memory"
        assert not os.get_inheritable(memory)
        with near, socket.socket(fileno=connection) as arrived:
            arrived.send(b"x")
            assert near.recv(1) == b"x"
        os.close(memory)
        assert messages.receive(theirs) == (messages.encode(messages.Stop()), [])
        with pytest.raises(BlockingIOError):
            messages.receive(theirs, wait=False)
        ours.close()
        assert messages.receive(theirs) == (b"", [])
