import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.rest.user_headers import (
    HeaderHalf,
    HeaderPair,
    HeadersDocument,
    headers_block,
    headers_document,
    sorted_headers_block,
)
from borzoi.protocol.rest.words import HEADER_KINDS
from borzoi.records.user_headers import HeaderKind

kinds = st.sampled_from(HeaderKind).map(HEADER_KINDS.word)
halves = st.builds(HeaderHalf, kinds, st.binary(min_size=1, max_size=255))
documents = st.lists(
    st.builds(HeaderPair, halves, halves), max_size=5, unique_by=lambda pair: repr(pair.key)
)

#: string "k" = string "v", string "n" = int32 -5.
BLOCK = bytes.fromhex("02010000006b02010000007602010000006e0604000000fbffffff")


def test_the_bytes_of_a_known_block_are_its_pairs() -> None:
    document = headers_document(BLOCK)
    assert msgspec.to_builtins(document, builtin_types=(bytes,)) == [
        {
            "key": {"kind": "string", "value": b"k"},
            "value": {"kind": "string", "value": b"v"},
        },
        {
            "key": {"kind": "string", "value": b"n"},
            "value": {"kind": "int32", "value": b"\xfb\xff\xff\xff"},
        },
    ]
    assert headers_block(document) == BLOCK


@given(documents)
def test_pairs_survive_the_block_and_json(document: list[HeaderPair]) -> None:
    block = headers_block(document)
    assert headers_document(block) == document
    text = msgspec.json.encode(document)
    assert headers_block(msgspec.json.decode(text, type=HeadersDocument)) == block


@given(st.binary(max_size=60))
def test_any_block_comes_back_as_it_was(block: bytes) -> None:
    text = msgspec.json.encode(headers_document(block))
    assert headers_block(msgspec.json.decode(text, type=HeadersDocument)) == block


@pytest.mark.parametrize(
    "damaged",
    [
        BLOCK[:-1],
        BLOCK[:7],
        b"\x00" + BLOCK[1:],
        b"\x10" + BLOCK[1:],
        bytes.fromhex("02000000000201000000ff"),
        b"\xde\xad",
        BLOCK + BLOCK,
    ],
)
def test_a_block_that_pairs_cannot_stand_for_stays_as_it_is(damaged: bytes) -> None:
    assert headers_document(damaged) == damaged


def test_what_is_sent_has_each_key_once_and_in_the_order_of_the_clients() -> None:
    def pair(kind: str, key: bytes, value: bytes) -> HeaderPair:
        return HeaderPair(HeaderHalf(kind, key), HeaderHalf("raw", value))

    document = [
        pair("string", b"k", b"1"),
        pair("string", b"a", b"2"),
        pair("raw", b"z", b"3"),
        pair("string", b"k", b"4"),
    ]
    assert headers_document(sorted_headers_block(document)) == [
        document[2],
        document[1],
        document[3],
    ]


def test_a_block_given_whole_or_not_at_all_is_taken_as_it_is() -> None:
    assert sorted_headers_block(BLOCK) == headers_block(BLOCK) == BLOCK
    assert sorted_headers_block(None) == headers_block(None) == b""


@pytest.mark.parametrize(
    "half", ['{"kind":"nope","value":"aw=="}', '{"kind":"raw","value":""}', '{"kind":"raw"}']
)
def test_a_half_has_a_known_kind_and_a_length_that_travels(half: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(half, type=HeaderHalf)
