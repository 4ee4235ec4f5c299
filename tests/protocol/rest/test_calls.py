from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_strategies import REQUESTS, names

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    BorzoiError,
    FeatureUnavailable,
    InvalidFormat,
    InvalidIdentifier,
    ResourceNotFound,
    StreamNotFound,
    TooManyPartitions,
    Unauthenticated,
)
from borzoi.model.system import SnapshotCompression, SnapshotKind
from borzoi.protocol.commands.groups import GetConsumerGroup
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import DeleteConsumerOffset, GetConsumerOffset
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import (
    CreateStream,
    GetStream,
    StreamDetails,
    UpdateStream,
)
from borzoi.protocol.commands.system import GetClient, GetSnapshot, Ping
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken
from borzoi.protocol.commands.topics import GetTopics
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.rest import routes
from borzoi.protocol.rest.calls import RestCall, allowed_methods, answer_of, call_of, match
from borzoi.protocol.rest.documents import encode_document
from borzoi.protocol.rest.errors import error_answer, missing_answer
from borzoi.protocol.rest.faults import HttpFault

NOW = 1_700_000_000_000_000
JSON = "application/json"
CONSUMER = Consumer(ConsumerKind.CONSUMER, "c")

STRATEGIES: dict[Any, st.SearchStrategy[Any]] = {
    **REQUESTS,
    routes.FollowMessages: st.builds(
        lambda poll, count: routes.FollowMessages(
            poll.stream_id,
            poll.topic_id,
            poll.consumer.id,
            poll.partition_id or 0,
            poll.strategy,
            count,
        ),
        REQUESTS[PollMessages],
        st.integers(1, 1000),
    ),
    routes.Welcome: st.just(routes.Welcome()),
    **{
        request: st.builds(request)
        for request in (
            routes.GetMetrics,
            routes.GetLiveness,
            routes.GetReadiness,
            routes.GetDescription,
            routes.GetGuide,
        )
    },
    routes.RefreshToken: st.builds(routes.RefreshToken, names),
}


def heard(call: RestCall) -> Any:
    path, _, query = call.target.partition("?")
    content_type = None if call.body is None else JSON
    return match(call.method, path).request(query, content_type, call.body or b"", now=NOW)


@pytest.mark.parametrize(
    "request_type",
    [route.request for route in routes.ROUTES if route.request is not SendMessages],
    ids=lambda each: each.__name__,
)
def test_a_request_that_can_be_said_is_heard_as_it_was_meant(request_type: type) -> None:
    @given(STRATEGIES[request_type])
    def is_heard(request: Any) -> None:
        try:
            call = call_of(request)
        except (FeatureUnavailable, InvalidIdentifier):
            return  # a group, or a name of digits
        if isinstance(request, PollMessages | GetConsumerOffset) and request.partition_id is None:
            request = msgspec.structs.replace(request, partition_id=0)
        try:
            assert heard(call) == request
        except TooManyPartitions:
            assert not 1 <= request.partitions_count <= 1000

    is_heard()


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        (routes.Welcome(), RestCall("GET", "/", None)),
        (Ping(), RestCall("GET", "/ping", None)),
        (GetStream("sp ace/é"), RestCall("GET", "/streams/sp%20ace%2F%C3%A9", None)),
        (CreateStream("s"), RestCall("POST", "/streams", b'{"name":"s"}')),
        (
            DeleteSegments(0, "t", 3, 4),
            RestCall("DELETE", "/streams/0/topics/t/partitions/3?segments_count=4", None),
        ),
        (
            FlushUnsavedBuffer(0, 1, 2, True),
            RestCall("GET", "/streams/0/topics/1/messages/flush/2/true", None),
        ),
        (
            FlushUnsavedBuffer(0, 1, 2, False),
            RestCall("GET", "/streams/0/topics/1/messages/flush/2/false", None),
        ),
        (
            DeleteConsumerOffset(CONSUMER, "s", "t", None),
            RestCall("DELETE", "/streams/s/topics/t/consumer-offsets/c", None),
        ),
        (
            PollMessages(CONSUMER, "s", "t", 1, PollingStrategy.next(), 5, True),
            RestCall(
                "GET",
                "/streams/s/topics/t/messages?consumer_id=c&partition_id=1&kind=next&value=0"
                "&count=5&auto_commit=true",
                None,
            ),
        ),
        (
            DeletePersonalAccessToken("a b"),
            RestCall("DELETE", "/personal-access-tokens/a%20b", None),
        ),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_client_says_a_request_like_this(request_: object, call: RestCall) -> None:
    assert call_of(request_) == call
    assert heard(call) == request_


def test_a_word_of_a_path_wins_over_a_parameter() -> None:
    assert match("POST", "/users/login").route.request is LoginUser
    with pytest.raises(HttpFault) as refused:
        match("GET", "/users/login")
    assert refused.value.allow == ("POST",)


@pytest.mark.parametrize("name", ["orders", "o" * 250])
def test_a_path_means_the_same_each_time(name: str) -> None:
    asked = [match("GET", f"/streams/{name}").request(now=NOW) for _ in range(2)]
    assert asked == [GetStream(name)] * 2


def test_head_is_get_without_a_body() -> None:
    assert match("HEAD", "/ping").route.request is Ping
    assert allowed_methods("/streams/0") == ("GET", "HEAD", "PUT", "DELETE")


@pytest.mark.parametrize("path", ["/nope", "/streams/", "/users/1/2/3", "//", "/streams//topics"])
def test_an_unknown_path_is_404(path: str) -> None:
    with pytest.raises(HttpFault) as refused:
        match("GET", path)
    assert refused.value.status == HTTPStatus.NOT_FOUND
    with pytest.raises(HttpFault):
        allowed_methods(path)


def test_the_start_of_a_path_is_no_path() -> None:
    with pytest.raises(HttpFault) as refused:
        match("GET", "/cluster")
    assert refused.value.status == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/clients/abc", ""),
        ("/clients/-1", ""),
        ("/clients/٣", ""),
        ("/clients/4294967296", ""),
        ("/streams/0/topics/0/messages/flush/0/1", ""),
        ("/streams/%FF", ""),
        ("/streams/0/topics/0/messages", "count=x"),
        ("/streams/0/topics/0/messages", "count="),
        ("/streams/0/topics/0/messages", "count=1&count=2"),
        ("/streams/0/topics/0/messages", "kind=nope"),
        ("/streams/0/topics/0/messages", "consumer_id=%FF"),
    ],
)
def test_a_bad_path_or_query_is_400(path: str, query: str) -> None:
    with pytest.raises(HttpFault) as refused:
        match("GET", path).request(query, now=NOW)
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        (None, b'{"name":"s"}', 415),
        ("text/plain", b'{"name":"s"}', 415),
        (JSON, b"", 400),
        (JSON, b"{", 400),
        (JSON, b'{"name":"s"} x', 400),
        (JSON, b'{"name":"\xff"}', 400),
        (JSON, b'{"x":' + b"[" * 100_000, 400),
        (JSON, b"{}", 422),
        (JSON, b"[]", 422),
        (JSON, b'{"name":5}', 422),
    ],
)
def test_a_bad_body_is_refused_with_its_status(
    content_type: str | None, body: bytes, status: int
) -> None:
    with pytest.raises(HttpFault) as refused:
        match("POST", "/streams").request("", content_type, body, now=NOW)
    assert refused.value.status == status


@pytest.mark.parametrize(
    "content_type", [JSON, "Application/JSON; charset=utf-8", "application/problem+json"]
)
def test_json_may_be_called_by_its_other_names(content_type: str) -> None:
    found = match("POST", "/streams")
    assert found.request("", content_type, b'{"name":"s"}', now=NOW) == CreateStream("s")


def test_the_body_is_judged_before_the_names_in_the_path() -> None:
    found = match("PUT", "/streams/" + "y" * 256)
    with pytest.raises(HttpFault):
        found.request("", JSON, b"{}", now=NOW)
    with pytest.raises(InvalidIdentifier):
        found.request("", JSON, b'{"name":""}', now=NOW)
    assert match("PUT", "/streams/7").request("", JSON, b'{"name":"x"}', now=NOW) == UpdateStream(
        7, "x"
    )


def test_digits_in_a_path_are_a_number() -> None:
    assert match("GET", "/clients/7").request(now=NOW) == GetClient(7)
    group = match("GET", "/streams/1/topics/t/consumer-groups/2").request(now=NOW)
    assert group == GetConsumerGroup(1, "t", 2)


def test_an_answer_is_a_response_a_text_an_archive_or_nothing() -> None:
    stream = StreamDetails(1, 2, 3, 4, "s", ())
    assert answer_of(GetStream(1), 200, encode_document(stream)) == stream
    assert answer_of(Ping(), 200, b"pong") == "pong"
    snapshot = GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.TEST,))
    assert answer_of(snapshot, 200, b"PK") == b"PK"
    assert answer_of(UpdateStream(1, "s"), 204, b"") is None


def test_a_read_that_found_nothing_answers_with_nothing() -> None:
    for request in (GetStream(1), GetConsumerGroup(1, 2, 3)):
        missing = missing_answer(request)
        assert answer_of(request, missing.status, missing.body) is None


def test_every_other_failure_is_raised() -> None:
    missing = missing_answer(GetStream(1))
    with pytest.raises(ResourceNotFound):
        answer_of(GetTopics(1), missing.status, missing.body)
    refused = error_answer(StreamNotFound(), GetConsumerGroup("s", 2, 3))
    with pytest.raises(StreamNotFound, match="Stream with ID: s"):
        answer_of(GetConsumerGroup("s", 2, 3), refused.status, refused.body)
    with pytest.raises(Unauthenticated):
        answer_of(GetStream(1), 401, b"")


def test_a_request_that_cannot_be_said_is_refused() -> None:
    for broken in ("7", "n\udcff"):
        with pytest.raises(InvalidIdentifier):
            call_of(GetStream(broken))
    with pytest.raises((InvalidFormat, InvalidIdentifier)):
        call_of(GetStream(""))


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", ""]),
    st.lists(
        st.sampled_from(["streams", "users", "topics", "0", "s", "%FF", "%", "messages", "login"])
        | st.text(max_size=4),
        max_size=6,
    ),
    st.text(max_size=20),
    st.sampled_from([None, JSON]),
    st.binary(max_size=40),
)
def test_garbage_is_a_request_or_one_of_our_errors(
    method: str, segments: list[str], query: str, content_type: str | None, body: bytes
) -> None:
    with suppress(BorzoiError):
        match(method, "/" + "/".join(segments)).request(query, content_type, body, now=NOW)


def test_a_request_may_be_made_of_its_path_and_of_what_did_not_come_as_a_body() -> None:
    found = match("GET", "/streams/s%20s/topics/7/consumer-groups/g")
    assert found.with_arguments({}) == GetConsumerGroup("s s", 7, "g")


def test_a_path_names_streams_and_topics() -> None:
    found = match("POST", "/streams/7/topics/%C3%A4/messages")
    assert found.identifiers() == {"stream_id": 7, "topic_id": "ä"}
