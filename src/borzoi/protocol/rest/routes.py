"""The one table of routes: method and path on one side, requests on the other.

Path parameters are named after the fields of the request. `borzoi.protocol.rest.calls` walks the
table in both directions: from a call to its request for the server, and back for a client.
"""

from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import FeatureUnavailable
from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.codes import Code
from borzoi.protocol.hiding import hiding
from borzoi.protocol.rest import consuming, inputs
from borzoi.protocol.rest.accounts import AccessIdentity
from borzoi.protocol.rest.messages import SendInput

#: Paths that need no token.
PUBLIC_PATHS: Final = frozenset(
    {
        "/",
        "/ping",
        "/metrics",
        "/users/login",
        "/users/refresh-token",
        "/personal-access-tokens/login",
        "/ui",
        "/health/live",
        "/health/ready",
        "/openapi.json",
        "/docs",
    }
)


class Welcome(Value):
    """GET /: which service this is."""


class GetMetrics(Value):
    """GET /metrics: the counters and gauges of the server as text."""


class GetLiveness(Value):
    """GET /health/live: whether the server runs at all. Not in 0.8."""


class GetReadiness(Value):
    """GET /health/ready: whether it takes requests; 503 before and after. Not in 0.8."""


class GetDescription(Value):
    """GET /openapi.json: all routes, for programs. Not in 0.8."""


class GetGuide(Value):
    """GET /docs: all routes, for people. Not in 0.8."""


class FollowMessages(Value):
    """GET …/messages/stream: the messages of a partition as they come. Not in 0.8."""

    stream_id: Identifier
    topic_id: Identifier
    consumer_id: Identifier
    partition_id: int
    strategy: PollingStrategy
    count: int


class RefreshToken(Value):
    """POST /users/refresh-token: a token that is still good for a new one."""

    token: str
    __repr__ = hiding("token")


class Route(Value):
    """One line of the table.

    `answer` is the type of the response that a document is made of; None for an empty body, `str`
    for a text, `bytes` for what `media` says.
    """

    method: str
    template: str
    request: Callable[..., Any]
    status: HTTPStatus = HTTPStatus.OK
    query: type[inputs.Input[Any]] | None = None
    body: type[inputs.Input[Any]] | None = None
    answer: type | None = None
    #: The content type of `bytes`.
    media: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        return _segments(self.template)


@cache
def _segments(template: str) -> tuple[str, ...]:
    return tuple(template[1:].split("/"))


NO_CONTENT: Final = HTTPStatus.NO_CONTENT
CREATED: Final = HTTPStatus.CREATED
STREAM: Final = "/streams/{stream_id}"
TOPIC: Final = STREAM + "/topics/{topic_id}"
GROUPS: Final = TOPIC + "/consumer-groups"
OFFSETS: Final = TOPIC + "/consumer-offsets"


def _get(template: str, code: Code, **more: Any) -> Route:
    return _answering("GET", template, code, **more)


def _post(template: str, code: Code, **more: Any) -> Route:
    return _answering("POST", template, code, **more)


def _answering(method: str, template: str, code: Code, **more: Any) -> Route:
    """A route that answers with the response of its request."""
    request = REQUESTS[code]
    return Route(method, template, request, **{"answer": request.RESPONSE, **more})


def _put(template: str, code: Code, body: type[inputs.Input[Any]]) -> Route:
    return Route("PUT", template, REQUESTS[code], NO_CONTENT, body=body)


def _delete(template: str, code: Code, **more: Any) -> Route:
    return Route("DELETE", template, REQUESTS[code], NO_CONTENT, **more)


# fmt: off
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/", Welcome, answer=str),
    _get("/ping", Code.PING, answer=str),
    Route("GET", "/metrics", GetMetrics, answer=str),
    Route("GET", "/health/live", GetLiveness, answer=str),
    Route("GET", "/health/ready", GetReadiness, answer=str),
    Route("GET", "/openapi.json", GetDescription, answer=bytes, media="application/json"),
    Route("GET", "/docs", GetGuide, answer=bytes, media="text/html; charset=utf-8"),
    _get("/stats", Code.GET_STATS),
    _get("/cluster/metadata", Code.GET_CLUSTER_METADATA),
    _get("/clients", Code.GET_CLIENTS),
    _get("/clients/{client_id}", Code.GET_CLIENT),
    _post("/snapshot", Code.GET_SNAPSHOT, body=inputs.SnapshotInput, answer=bytes,
          media="application/zip"),
    _get("/users", Code.GET_USERS),
    _post("/users", Code.CREATE_USER, body=inputs.CreateUserInput),
    _post("/users/login", Code.LOGIN_USER, body=inputs.LoginInput, answer=AccessIdentity),
    _delete("/users/logout", Code.LOGOUT_USER),
    Route("POST", "/users/refresh-token", RefreshToken,
          body=inputs.TokenInput, answer=AccessIdentity),
    _get("/users/{user_id}", Code.GET_USER),
    _put("/users/{user_id}", Code.UPDATE_USER, inputs.UpdateUserInput),
    _delete("/users/{user_id}", Code.DELETE_USER),
    _put("/users/{user_id}/permissions", Code.UPDATE_PERMISSIONS, inputs.PermissionsInput),
    _put("/users/{user_id}/password", Code.CHANGE_PASSWORD, inputs.PasswordInput),
    _get("/personal-access-tokens", Code.GET_PERSONAL_ACCESS_TOKENS),
    _post("/personal-access-tokens", Code.CREATE_PERSONAL_ACCESS_TOKEN, body=inputs.TokenNameInput),
    _post("/personal-access-tokens/login", Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
          body=inputs.TokenInput, answer=AccessIdentity),
    _delete("/personal-access-tokens/{name}", Code.DELETE_PERSONAL_ACCESS_TOKEN),
    _get("/streams", Code.GET_STREAMS),
    _post("/streams", Code.CREATE_STREAM, body=inputs.StreamInput),
    _get(STREAM, Code.GET_STREAM),
    _put(STREAM, Code.UPDATE_STREAM, inputs.StreamInput),
    _delete(STREAM, Code.DELETE_STREAM),
    _delete(STREAM + "/purge", Code.PURGE_STREAM),
    _get(STREAM + "/topics", Code.GET_TOPICS),
    _post(STREAM + "/topics", Code.CREATE_TOPIC, body=inputs.CreateTopicInput),
    _get(TOPIC, Code.GET_TOPIC),
    _put(TOPIC, Code.UPDATE_TOPIC, inputs.TopicInput),
    _delete(TOPIC, Code.DELETE_TOPIC),
    _delete(TOPIC + "/purge", Code.PURGE_TOPIC),
    _post(TOPIC + "/partitions", Code.CREATE_PARTITIONS, body=inputs.PartitionsInput,
          status=CREATED),
    _delete(TOPIC + "/partitions", Code.DELETE_PARTITIONS, query=inputs.PartitionsInput),
    _delete(TOPIC + "/partitions/{partition_id}", Code.DELETE_SEGMENTS, query=inputs.SegmentsInput),
    _get(TOPIC + "/messages", Code.POLL_MESSAGES, query=consuming.PollInput),
    _post(TOPIC + "/messages", Code.SEND_MESSAGES, body=SendInput, status=CREATED),
    Route("GET", TOPIC + "/messages/stream", FollowMessages, query=consuming.FollowInput,
          answer=bytes, media="text/event-stream"),
    _get(TOPIC + "/messages/flush/{partition_id}/{fsync}", Code.FLUSH_UNSAVED_BUFFER),
    _get(OFFSETS, Code.GET_CONSUMER_OFFSET, query=consuming.OffsetInput),
    _put(OFFSETS, Code.STORE_CONSUMER_OFFSET, consuming.StoreOffsetInput),
    _delete(OFFSETS + "/{consumer_id}", Code.DELETE_CONSUMER_OFFSET,
            query=consuming.DeleteOffsetInput),
    _get(GROUPS, Code.GET_CONSUMER_GROUPS),
    _post(GROUPS, Code.CREATE_CONSUMER_GROUP, body=inputs.GroupInput, status=CREATED),
    _get(GROUPS + "/{group_id}", Code.GET_CONSUMER_GROUP),
    _delete(GROUPS + "/{group_id}", Code.DELETE_CONSUMER_GROUP),
)
# fmt: on

_ROUTE_OF: Final[Mapping[object, Route]] = {route.request: route for route in ROUTES}


def route_of(request: object) -> Route:
    """The route a request travels; sessions and groups have none."""
    route = _ROUTE_OF.get(type(request))
    if route is None:
        raise FeatureUnavailable(f"there is no {type(request).__name__} over HTTP")
    return route
