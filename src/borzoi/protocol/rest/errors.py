"""Error bodies: ``{"id", "code", "reason", "field"}``, from exceptions and back to them.

The reason is for people. Where the published servers are known to say something, the same is said
here, except that stream and topic stand in their right places and are named as the request named
them.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from borzoi.model.errors import (
    BorzoiError,
    ClientNotFound,
    ConsumerOffsetNotFound,
    GroupNotFound,
    InvalidClientId,
    PartitionNotFound,
    ResourceNotFound,
    ServerError,
    StreamNotFound,
    TopicNotFound,
    Unauthenticated,
    Unauthorized,
)
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.protocol.commands.groups import GetConsumerGroup
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.system import GetClient
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, GetTopics
from borzoi.protocol.commands.users import GetUser
from borzoi.protocol.errors import code_of, error_of, row_of
from borzoi.protocol.rest.faults import HttpFault

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

#: The status of an answer that is neither an error of the protocol nor one of HTTP's own.
HTTP_RESPONSE_ERROR: Final = 300


class ErrorDocument(msgspec.Struct):
    id: int
    code: str
    reason: str
    field: str | None = None


class ErrorAnswer(NamedTuple):
    """An answer that is not a success; `allow` lists the methods of a 405."""

    status: HTTPStatus
    content_type: str = ""
    body: bytes = b""
    allow: tuple[str, ...] = ()


#: What is said to a token that is missing, malformed, expired or revoked: nothing.
NO_TOKEN: Final = ErrorAnswer(HTTPStatus.UNAUTHORIZED)

#: These reads (and one write) do not say which of the things they name is missing.
_JUST_MISSING: Final[Mapping[type, tuple[type[BorzoiError], ...]]] = MappingProxyType(
    {
        GetStream: (StreamNotFound,),
        GetTopic: (StreamNotFound, TopicNotFound),
        GetTopics: (StreamNotFound,),
        CreateTopic: (StreamNotFound,),
        GetUser: (ResourceNotFound,),
        GetClient: (ClientNotFound, InvalidClientId),
        GetConsumerOffset: (PartitionNotFound, ConsumerOffsetNotFound),
    }
)
_MISSING: Final = ErrorDocument(404, "not_found", "Resource not found")


def _partition(request: Any) -> int:
    if isinstance(request, SendMessages):
        return request.partitioning.partition_id
    partition_id: int = request.partition_id
    return partition_id


#: The reasons that name something, by status; the others are the words of the status.
_REASONS: Final[Mapping[int, Callable[[Any], str]]] = MappingProxyType(
    {
        20: lambda request: f"Resource with key: {request.user_id} was not found.",
        48: lambda _: f"Cannot delete user with ID: {ROOT_USER_ID}",
        49: lambda _: f"Cannot change permissions for user with ID: {ROOT_USER_ID}",
        1009: lambda request: f"Stream with ID: {request.stream_id} was not found.",
        1012: lambda request: f"Stream with name: {request.name} already exists.",
        2010: lambda request: (
            f"Topic with ID: {request.topic_id} for stream with ID: {request.stream_id}"
            " was not found."
        ),
        2013: lambda request: (
            f"Topic with name: {request.name} for stream with ID: {request.stream_id}"
            " already exists."
        ),
        3007: lambda request: (
            f"Partition with ID: {_partition(request)} for topic with ID: {request.topic_id}"
            f" for stream with ID: {request.stream_id} was not found."
        ),
        3021: lambda request: (
            f"Consumer offset for consumer with ID: {request.consumer.id} was not found."
        ),
        4100: lambda request: f"Invalid offset: {request.offset}",
    }
)

#: These are known to be answered with the words of their status and nothing more.
_BARE: Final = frozenset(
    {3, 6, 41, 42, 43, 44, 46, 47, 78, 1013, 2014, 2015, 2018, 2019, 4009, 4028}
)


def error_answer(error: BorzoiError, request: object = None) -> ErrorAnswer:
    """What a failed call is answered with; `request` is None when there was none yet."""
    if isinstance(error, HttpFault):
        sentence = str(error)
        return ErrorAnswer(error.status, TEXT if sentence else "", sentence.encode(), error.allow)
    if isinstance(error, _JUST_MISSING.get(type(request), ())):
        return ErrorAnswer(HTTPStatus.NOT_FOUND, JSON, msgspec.json.encode(_MISSING))
    row = row_of(code_of(error))
    document = ErrorDocument(row.code, row.name, _reason(error, request), row.field)
    return ErrorAnswer(row.http_status, JSON, msgspec.json.encode(document))


def missing_answer(request: object) -> ErrorAnswer:
    """What a read is answered with that found nothing, where the wire answers with nothing."""
    if isinstance(request, GetConsumerGroup):
        return error_answer(GroupNotFound(), request)
    return ErrorAnswer(HTTPStatus.NOT_FOUND, JSON, msgspec.json.encode(_MISSING))


def _reason(error: BorzoiError, request: object) -> str:
    row = row_of(code_of(error))
    if row.code in _BARE:
        return row.sentence
    if row.code in _REASONS:
        try:
            return _REASONS[row.code](request)
        except AttributeError:
            # The request does not name what is missing (a token of a deleted user).
            pass
    return str(error) or row.sentence


def error_from(status: int, body: bytes) -> BorzoiError:
    """What a client raises for an answer that is not a success."""
    try:
        document = msgspec.json.decode(body, type=ErrorDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _without_document(status, body)
    if document.code == _MISSING.code:
        return ResourceNotFound(document.reason)
    return error_of(document.id, document.reason)


def _without_document(status: int, body: bytes) -> BorzoiError:
    text = body[:200].decode("utf-8", "replace")
    sentence = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return Unauthenticated(sentence)
        case HTTPStatus.FORBIDDEN:
            return Unauthorized(sentence)
        case HTTPStatus.NOT_FOUND:
            return ResourceNotFound(sentence)
    return ServerError(HTTP_RESPONSE_ERROR, sentence)
