"""Envelopes as bytes: whole, cut anywhere, interleaved, and what no shard sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.errors import (
    BorzoiError,
    InvalidFormat,
    InvalidOffset,
    PartitionNotFound,
    ServerError,
    ShardUnavailable,
    StorageFailure,
)
from borzoi.shard.envelopes import (
    FRAGMENT_BYTES,
    HEAD,
    MORE,
    Decoder,
    Envelope,
    EnvelopeKind,
    Subject,
    decode_failure,
    encode_failure,
    encode_fragments,
)


def encoded(envelope: Envelope) -> bytes:
    return b"".join(bytes(head) + bytes(body) for head, body in encode_fragments(envelope))


def plain(envelope: Envelope) -> tuple[int, int, int, bytes, list[int]]:
    return (
        envelope.kind,
        envelope.subject,
        envelope.number,
        bytes(envelope.body),
        list(envelope.descriptors),
    )


envelopes = st.builds(
    Envelope,
    st.sampled_from(list(EnvelopeKind)).map(int),
    st.sampled_from(list(Subject)).map(int),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=200),
)


@given(st.lists(envelopes, max_size=8), st.lists(st.integers(1, 64), min_size=1))
def test_envelopes_are_found_however_the_bytes_arrive(sent, cuts):
    data = b"".join(encoded(one) for one in sent)
    decoder, found, position, turn = Decoder(), [], 0, 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        turn += 1
        found += decoder.feed(data[position : position + size])
        position += size
    assert [plain(one) for one in found] == [plain(one) for one in sent]


@pytest.mark.parametrize(
    "size", [FRAGMENT_BYTES, FRAGMENT_BYTES + 1, 3 * FRAGMENT_BYTES, 3 * FRAGMENT_BYTES + 7]
)
def test_a_large_body_arrives_in_one_piece(size):
    body = bytes(number % 251 for number in range(size))
    sent = Envelope(EnvelopeKind.REPLY, Subject.OPERATION, 7, body, [33, 44])
    fragments = list(encode_fragments(sent))
    assert len(fragments) == -(-size // FRAGMENT_BYTES)
    decoder = Decoder()
    found = decoder.feed(encoded(sent), [33, 44])
    assert [plain(one) for one in found] == [plain(sent)]
    assert decoder.unclaimed() == []


def test_an_urgent_envelope_passes_between_the_fragments_of_a_large_one():
    large = Envelope(EnvelopeKind.REPLY, Subject.OPERATION, 1, bytes(3 * FRAGMENT_BYTES))
    urgent = Envelope(EnvelopeKind.REQUEST, Subject.ENTRY, 1, b"now")
    fragments = [bytes(head) + bytes(body) for head, body in encode_fragments(large)]
    decoder = Decoder()
    assert decoder.feed(fragments[0]) == []
    assert [plain(one) for one in decoder.feed(encoded(urgent))] == [plain(urgent)]
    assert [plain(one) for one in decoder.feed(fragments[1] + fragments[2])] == [plain(large)]


def test_descriptors_belong_to_the_envelopes_in_order():
    decoder = Decoder()
    first = Envelope(EnvelopeKind.NOTICE, Subject.FILE, 0, b"a", [10])
    second = Envelope(EnvelopeKind.NOTICE, Subject.OPERATION, 0, b"b")
    third = Envelope(EnvelopeKind.NOTICE, Subject.FILE, 0, b"c", [11, 12])
    data = encoded(first) + encoded(second) + encoded(third)
    found = decoder.feed(data[:5], [10])
    found += decoder.feed(data[5:], [11, 12])
    assert [list(one.descriptors) for one in found] == [[10], [], [11, 12]]


def test_descriptors_without_an_envelope_are_known():
    decoder = Decoder()
    sent = Envelope(EnvelopeKind.NOTICE, Subject.FILE, 0, bytes(2 * FRAGMENT_BYTES), [10])
    fragments = [bytes(head) + bytes(body) for head, body in encode_fragments(sent)]
    decoder.feed(fragments[0], [10, 11])
    assert sorted(decoder.unclaimed()) == [10, 11]
    assert decoder.unclaimed() == []


def test_an_envelope_whose_descriptors_were_lost_is_refused():
    with pytest.raises(InvalidFormat, match="lacks"):
        Decoder().feed(encoded(Envelope(EnvelopeKind.NOTICE, Subject.FILE, 0, b"", [1])))


def test_a_fragment_that_is_too_large_is_refused():
    with pytest.raises(InvalidFormat, match="fragment"):
        Decoder().feed(HEAD.pack(FRAGMENT_BYTES + 1, 1, 1, 1, 0, 0))


def test_bodies_are_bounded(monkeypatch):
    monkeypatch.setattr("borzoi.shard.envelopes.BODY_BYTES_MAX", 100)
    with pytest.raises(InvalidFormat, match="too large"):
        encoded(Envelope(1, 1, 1, bytes(101)))
    decoder = Decoder()
    fragment = HEAD.pack(60, 1, 1, 1, 0, MORE) + bytes(60)
    decoder.feed(fragment)
    with pytest.raises(InvalidFormat, match="too many"):
        decoder.feed(fragment)


@pytest.mark.parametrize(
    "error",
    [
        PartitionNotFound("there is no partition 0/0/7"),
        InvalidOffset("offset 9"),
        StorageFailure("no space"),
        ShardUnavailable("shard 2 died"),
    ],
)
def test_a_failure_is_the_same_error_on_the_other_side(error: BorzoiError):
    found = decode_failure(encode_failure(error))
    assert type(found) is type(error)
    assert (found.code, found.message) == (error.code, error.message)


def test_a_failure_without_a_class_keeps_its_number():
    found = decode_failure(encode_failure(ServerError(4039, "odd")))
    assert isinstance(found, ServerError)
    assert found.code == 4039
