import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.wire_strategies import RESPONSES, names, u32, u64

from borzoi.model.errors import BorzoiError, InvalidFormat
from borzoi.model.topics import Compression
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.streams import StreamDetails, StreamInfo, Streams
from borzoi.protocol.commands.system import ClientInfo, Clients, Stats
from borzoi.protocol.commands.tokens import TokenInfo, Tokens
from borzoi.protocol.commands.topics import TopicDetails, TopicInfo, Topics
from borzoi.protocol.rest.accounts import AccessIdentity
from borzoi.protocol.rest.documents import DOCUMENTS, decode_document, encode_document

identities = st.builds(AccessIdentity, u32, names, u64)
STRATEGIES: dict[type, st.SearchStrategy[Any]] = {
    **RESPONSES,
    AccessIdentity: identities,
    PolledMessages: st.builds(PolledMessages, u32, u64, st.just(0), st.just(b"")),
}
#: An array keeps its order only where the order means something.
SORTED = {Tokens: "tokens", Clients: "clients"}

TOPIC = TopicInfo(1, 2, 3, 4, Compression.ZSTD, 5, 6, 1103, 8, "t")


@pytest.mark.parametrize("response_type", DOCUMENTS, ids=lambda each: each.__name__)
def test_a_response_survives_json(response_type: type) -> None:
    @given(STRATEGIES[response_type])
    def survives(response: Any) -> None:
        if isinstance(response, Stats):
            assume(not response.cache_metrics)
            assume(abs(response.cpu_usage) + abs(response.total_cpu_usage) < float("inf"))
        text = encode_document(response, all_compressions=True)
        again = decode_document(response_type, text)
        if response_type in SORTED:
            field = SORTED[response_type]
            assert sorted(map(repr, getattr(again, field))) == sorted(
                map(repr, getattr(response, field))
            )
        else:
            assert again == response

    survives()


def test_lists_without_an_order_of_their_own_are_sorted() -> None:
    tokens = json.loads(encode_document(Tokens((TokenInfo("b", 0), TokenInfo("a", 5)))))
    assert tokens == [{"name": "a", "expiry_at": 5}, {"name": "b", "expiry_at": None}]
    clients = Clients(tuple(ClientInfo(each, None, 1, "", 0) for each in (9, 4)))  # type: ignore[arg-type]
    assert [client["client_id"] for client in json.loads(encode_document(clients))] == [4, 9]


@pytest.mark.parametrize(
    "response",
    [
        Topics((TOPIC,)),
        TopicDetails(1, 2, 4, Compression.LZ4, 5, 6, 7, 8, "t", ()),
        StreamDetails(1, 2, 3, 4, "s", (TOPIC,)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_compression_that_published_clients_refuse_is_called_gzip(response: object) -> None:
    assert b'"compression_algorithm":"gzip"' in encode_document(response)
    assert b'"compression_algorithm":"gzip"' not in encode_document(response, all_compressions=True)


def test_a_compression_that_published_clients_know_is_left_alone() -> None:
    topic = TopicDetails(1, 2, 4, Compression.NONE, 5, 6, 7, 8, "t", ())
    assert b'"compression_algorithm":"none"' in encode_document(topic)


def test_what_speaks_of_no_topic_needs_no_translation() -> None:
    assert encode_document(ConsumerOffset(1, 2, 3)) == (
        b'{"partition_id":1,"current_offset":2,"stored_offset":3}'
    )


def test_sizes_are_texts_and_plain_numbers_are_understood() -> None:
    stream = StreamInfo(0, 1, 2, 1103, 4, "s")
    document = json.loads(encode_document(Streams((stream,))))
    assert document[0]["size"] == "1.103 KB"
    document[0]["size"] = 1103
    assert decode_document(Streams, json.dumps(document).encode()) == Streams((stream,))


@pytest.mark.parametrize(
    ("response_type", "body"),
    [
        (Streams, b""),
        (Streams, b"{}"),
        (Streams, b"\xff"),
        (Streams, b"[" * 100_000),
        (Streams, b'[{"id":0,"created_at":1,"name":"\xff"}]'),
        (Topics, encode_document(Topics((TOPIC,))).replace(b"gzip", b"rust")),
        (Topics, encode_document(Topics((TOPIC,))).replace(b"1.103 KB", b"many")),
        (PolledMessages, b'{"partition_id":0,"current_offset":0,"count":1,"messages":[]}'),
    ],
)
def test_a_body_that_is_no_such_document_is_refused(response_type: type, body: bytes) -> None:
    with pytest.raises(InvalidFormat):
        decode_document(response_type, body)


@given(st.sampled_from(list(DOCUMENTS)), st.binary(max_size=60))
def test_garbage_raises_our_error_and_nothing_else(response_type: type, body: bytes) -> None:
    try:
        decode_document(response_type, body)
    except BorzoiError:
        return
    assert json.loads(body) == []
