"""A payload is what a message writes."""

from borzoi.model.topics import Compression
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.protocol.contract import encode_payload


def test_a_payload_has_no_frame():
    assert encode_payload(GetStream(5)) == b"\x01\x04\x05\x00\x00\x00"
    assert encode_payload(Ping()) == b""


def test_the_reader_of_an_answer_decides_how_compression_is_told():
    topic = TopicInfo(1, 2, 3, 4, Compression.ZSTD, 6, 7, 8, 9, "t")
    assert encode_payload(topic)[24] == Compression.GZIP
    assert encode_payload(topic, all_compressions=True)[24] == Compression.ZSTD
