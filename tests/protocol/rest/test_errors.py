import json
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.model import errors
from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.groups import GetConsumerGroup
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, SendMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import DeleteStream, GetStream
from borzoi.protocol.commands.tokens import GetPersonalAccessTokens
from borzoi.protocol.commands.topics import DeleteTopic, GetTopic
from borzoi.protocol.commands.users import DeleteUser
from borzoi.protocol.errors import ERRORS, code_of, error_of
from borzoi.protocol.rest import faults
from borzoi.protocol.rest.errors import (
    JSON,
    NO_TOKEN,
    TEXT,
    ErrorAnswer,
    error_answer,
    error_from,
    missing_answer,
)

NOTHING = memoryview(b"")
CONSUMER = Consumer(ConsumerKind.CONSUMER, 7)


def reason(answer: ErrorAnswer) -> str:
    text: str = json.loads(answer.body)["reason"]
    return text


def test_an_error_is_its_number_its_name_a_reason_and_the_field_to_blame() -> None:
    answer = error_answer(errors.StreamNotFound("no such stream"), DeleteStream("s"))
    assert (answer.status, answer.content_type) == (HTTPStatus.NOT_FOUND, JSON)
    assert json.loads(answer.body) == {
        "id": 1009,
        "code": "stream_id_not_found",
        "reason": "Stream with ID: s was not found.",
        "field": "stream_id",
    }


@pytest.mark.parametrize(
    ("error", "request_", "sentence"),
    [
        (
            errors.TopicNotFound(),
            DeleteTopic("s", 4),
            "Topic with ID: 4 for stream with ID: s was not",
        ),
        (
            errors.PartitionNotFound(),
            FlushUnsavedBuffer("s", "t", 9, False),
            "Partition with ID: 9 for",
        ),
        (
            errors.PartitionNotFound(),
            SendMessages("s", "t", Partitioning.partition(8), 0, NOTHING, NOTHING),
            "Partition with ID: 8 for topic with ID: t for stream with ID: s was not found.",
        ),
        (errors.InvalidOffset(), StoreConsumerOffset(CONSUMER, 0, 0, 0, 99), "Invalid offset: 99"),
        (errors.CannotDeleteRoot(), DeleteUser("iggy"), "Cannot delete user with ID: 0"),
        (errors.ResourceNotFound(), DeleteUser("bob"), "Resource with key: bob was not found."),
        (errors.ResourceNotFound("gone"), GetPersonalAccessTokens(), "gone"),
        (errors.InvalidUsername("too short: 'ab'"), None, "Invalid username"),
        (errors.InvalidTopicSize("1 B is too small"), None, "1 B is too small"),
        (errors.InvalidTopicSize(), None, "Invalid topic size"),
        (errors.ServerError(4242, "odd"), None, "odd"),
    ],
)
def test_the_reason_names_what_the_request_named(
    error: errors.BorzoiError, request_: object, sentence: str
) -> None:
    assert reason(error_answer(error, request_)).startswith(sentence)


@pytest.mark.parametrize(
    ("error", "request_", "code"),
    [
        (errors.StreamNotFound(), GetStream("s"), 404),
        (errors.TopicNotFound(), GetTopic("s", "t"), 404),
        (errors.PartitionNotFound(), GetConsumerOffset(CONSUMER, "s", "t", 9), 404),
        (errors.ConsumerOffsetNotFound(), GetConsumerOffset(CONSUMER, "s", "t", 9), 404),
        (errors.StreamNotFound(), GetConsumerOffset(CONSUMER, "s", "t", 9), 1009),
        (errors.StreamNotFound(), DeleteStream("s"), 1009),
    ],
)
def test_some_reads_do_not_say_what_is_missing(
    error: errors.BorzoiError, request_: object, code: int
) -> None:
    answer = error_answer(error, request_)
    assert answer.status == HTTPStatus.NOT_FOUND
    assert json.loads(answer.body)["id"] == code


def test_a_read_that_found_nothing_is_not_found_but_a_group_is_missing() -> None:
    assert json.loads(missing_answer(GetStream("s")).body) == {
        "id": 404,
        "code": "not_found",
        "reason": "Resource not found",
        "field": None,
    }
    group = missing_answer(GetConsumerGroup("s", "t", "g"))
    assert group.status == HTTPStatus.NOT_FOUND
    assert json.loads(group.body)["id"] == 5000


def test_what_http_refuses_is_said_in_plain_text() -> None:
    assert error_answer(faults.bad_query("count")) == ErrorAnswer(
        HTTPStatus.BAD_REQUEST, TEXT, b"Invalid query: count"
    )
    assert error_answer(faults.unknown_path()) == ErrorAnswer(HTTPStatus.NOT_FOUND)
    assert error_answer(faults.unknown_method(("PUT",))).allow == ("PUT",)


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row.name)
def test_a_client_raises_what_the_server_raised(row: object) -> None:
    error = error_of(row.code)  # type: ignore[attr-defined]
    answer = error_answer(error)
    told = error_from(answer.status, answer.body)
    assert type(told) is type(error)
    assert code_of(told) == code_of(error)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b"", errors.Unauthenticated),
        (403, b"go away", errors.Unauthorized),
        (404, b"", errors.ResourceNotFound),
        (422, b"The body has the wrong shape", errors.ServerError),
        (500, b"\xff\xfe", errors.ServerError),
        (502, b"[" * 100_000, errors.ServerError),
        (404, missing_answer(GetStream(0)).body, errors.ResourceNotFound),
    ],
)
def test_an_answer_that_is_no_document_is_told_by_its_status(
    status: int, body: bytes, kind: type[errors.BorzoiError]
) -> None:
    error = error_from(status, body)
    assert type(error) is kind
    assert str(error)


def test_a_missing_token_is_answered_with_nothing() -> None:
    assert (NO_TOKEN.status, NO_TOKEN.content_type, NO_TOKEN.body) == (401, "", b"")
    assert isinstance(error_from(NO_TOKEN.status, NO_TOKEN.body), errors.Unauthenticated)


@given(st.integers(100, 599), st.binary(max_size=50))
def test_any_answer_is_one_of_our_errors(status: int, body: bytes) -> None:
    assert isinstance(error_from(status, body), errors.BorzoiError)
