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
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.system import (
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetSnapshot,
    GetStats,
    Ping,
)
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    LoginUser,
    LogoutUser,
    UpdatePermissions,
    UpdateUser,
)
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


def _get(template: str, request: Any, **more: Any) -> Route:
    """A route that answers with the response of its request."""
    more.setdefault("answer", request.RESPONSE)
    return Route("GET", template, request, **more)


def _post(template: str, request: Any, **more: Any) -> Route:
    more.setdefault("answer", request.RESPONSE)
    return Route("POST", template, request, **more)


def _put(template: str, request: Any, body: type[inputs.Input[Any]]) -> Route:
    return Route("PUT", template, request, NO_CONTENT, body=body)


def _delete(template: str, request: Any, **more: Any) -> Route:
    return Route("DELETE", template, request, NO_CONTENT, **more)


# fmt: off
ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/", Welcome, answer=str),
    _get("/ping", Ping, answer=str),
    Route("GET", "/metrics", GetMetrics, answer=str),
    Route("GET", "/health/live", GetLiveness, answer=str),
    Route("GET", "/health/ready", GetReadiness, answer=str),
    Route("GET", "/openapi.json", GetDescription, answer=bytes, media="application/json"),
    Route("GET", "/docs", GetGuide, answer=bytes, media="text/html; charset=utf-8"),
    _get("/stats", GetStats),
    _get("/cluster/metadata", GetClusterMetadata),
    _get("/clients", GetClients),
    _get("/clients/{client_id}", GetClient),
    _post("/snapshot", GetSnapshot, body=inputs.SnapshotInput, answer=bytes,
          media="application/zip"),
    _get("/users", GetUsers),
    _post("/users", CreateUser, body=inputs.CreateUserInput),
    _post("/users/login", LoginUser, body=inputs.LoginInput, answer=AccessIdentity),
    _delete("/users/logout", LogoutUser),
    Route("POST", "/users/refresh-token", RefreshToken,
          body=inputs.TokenInput, answer=AccessIdentity),
    _get("/users/{user_id}", GetUser),
    _put("/users/{user_id}", UpdateUser, inputs.UpdateUserInput),
    _delete("/users/{user_id}", DeleteUser),
    _put("/users/{user_id}/permissions", UpdatePermissions, inputs.PermissionsInput),
    _put("/users/{user_id}/password", ChangePassword, inputs.PasswordInput),
    _get("/personal-access-tokens", GetPersonalAccessTokens),
    _post("/personal-access-tokens", CreatePersonalAccessToken, body=inputs.TokenNameInput),
    _post("/personal-access-tokens/login", LoginWithPersonalAccessToken,
          body=inputs.TokenInput, answer=AccessIdentity),
    _delete("/personal-access-tokens/{name}", DeletePersonalAccessToken),
    _get("/streams", GetStreams),
    _post("/streams", CreateStream, body=inputs.StreamInput),
    _get(STREAM, GetStream),
    _put(STREAM, UpdateStream, inputs.StreamInput),
    _delete(STREAM, DeleteStream),
    _delete(STREAM + "/purge", PurgeStream),
    _get(STREAM + "/topics", GetTopics),
    _post(STREAM + "/topics", CreateTopic, body=inputs.CreateTopicInput),
    _get(TOPIC, GetTopic),
    _put(TOPIC, UpdateTopic, inputs.TopicInput),
    _delete(TOPIC, DeleteTopic),
    _delete(TOPIC + "/purge", PurgeTopic),
    _post(TOPIC + "/partitions", CreatePartitions, body=inputs.PartitionsInput, status=CREATED),
    _delete(TOPIC + "/partitions", DeletePartitions, query=inputs.PartitionsInput),
    _delete(TOPIC + "/partitions/{partition_id}", DeleteSegments, query=inputs.SegmentsInput),
    _get(TOPIC + "/messages", PollMessages, query=consuming.PollInput),
    _post(TOPIC + "/messages", SendMessages, body=SendInput, status=CREATED),
    Route("GET", TOPIC + "/messages/stream", FollowMessages, query=consuming.FollowInput,
          answer=bytes, media="text/event-stream"),
    _get(TOPIC + "/messages/flush/{partition_id}/{fsync}", FlushUnsavedBuffer),
    _get(OFFSETS, GetConsumerOffset, query=consuming.OffsetInput),
    _put(OFFSETS, StoreConsumerOffset, consuming.StoreOffsetInput),
    _delete(OFFSETS + "/{consumer_id}", DeleteConsumerOffset, query=consuming.DeleteOffsetInput),
    _get(GROUPS, GetConsumerGroups),
    _post(GROUPS, CreateConsumerGroup, body=inputs.GroupInput, status=CREATED),
    _get(GROUPS + "/{group_id}", GetConsumerGroup),
    _delete(GROUPS + "/{group_id}", DeleteConsumerGroup),
)
# fmt: on

_ROUTE_OF: Final[Mapping[object, Route]] = {route.request: route for route in ROUTES}


def route_of(request: object) -> Route:
    """The route a request travels; sessions and groups have none."""
    route = _ROUTE_OF.get(type(request))
    if route is None:
        raise FeatureUnavailable(f"there is no {type(request).__name__} over HTTP")
    return route
