"""The storm itself: it is repeatable, and detects the faults that it is for."""

import random

import pytest
from tests.support import wire_garbage
from tests.support.wire_garbage import Sample, damaged, request_sample, response_sample, storm

from borzoi.model.errors import InvalidCommand, StreamNotFound
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.users import Identity
from borzoi.protocol.framing import REQUEST_PREFIX, ResponseDecoder, encode_request

GOOD = [
    request_sample(encode_request(GetStream("orders"))) or pytest.fail("no sample"),
    response_sample(Identity(7)),
]


def test_the_same_seed_is_the_same_storm():
    assert storm(3, 500, GOOD) == storm(3, 500, GOOD)
    assert [damaged(random.Random(seed), b"abcdef", GOOD) for seed in range(50)] == [
        damaged(random.Random(seed), b"abcdef", GOOD) for seed in range(50)
    ]


def test_a_sample_is_made_of_a_known_request_only():
    assert request_sample(b"\x00") is None
    assert request_sample(REQUEST_PREFIX.pack(4, 9999)) is None
    sample = request_sample(encode_request(GetStream(1)))
    assert sample is not None
    assert (sample.name, sample.payload) == ("GetStream", b"\x01\x04\x01\x00\x00\x00")


def test_every_kind_of_damage_is_done():
    rng = random.Random(0)
    results = {damaged(rng, b"abcdef", GOOD) for _ in range(300)} | {
        damaged(rng, b"", GOOD) for _ in range(300)
    }
    assert b"" in results
    assert any(len(result) > 10 for result in results)
    assert any(0 < len(result) < 6 for result in results)


@pytest.mark.parametrize(
    ("raised", "noticed"),
    [
        (InvalidCommand("malformed"), False),
        (StreamNotFound("not for a decoder to say"), True),
        (IndexError("foreign"), True),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "foreign"), True),
    ],
)
def test_an_exception_that_no_decoder_may_raise_is_noticed(raised, noticed):
    def decode(_):
        raise raised

    tally = storm(1, 100, [Sample("broken", decode, b"abcdef")])
    assert bool(tally.foreign) is noticed


def test_a_value_that_changes_when_rewritten_is_noticed():
    values = iter(range(10_000))
    tally = storm(1, 100, [Sample("fickle", lambda _: Identity(next(values)), b"abcdef")])
    assert tally.foreign != ()
    assert "changes when rewritten" in tally.foreign[0]


def test_a_value_that_cannot_be_written_or_read_again_is_noticed():
    tally = storm(1, 100, [Sample("unwritable", lambda _: Identity(-1), b"abcdef")])
    assert (tally.accepted, tally.refused) == (0, 0)
    assert "changes when rewritten" in tally.foreign[0]


def test_a_frame_decoder_that_breaks_is_noticed(monkeypatch):
    class Broken(ResponseDecoder):
        def next_response(self):
            raise MemoryError

    monkeypatch.setattr(wire_garbage, "ResponseDecoder", Broken)
    assert any("MemoryError" in fault for fault in storm(1, 100, GOOD).foreign)
