"""Calls and requests: what a method, a target and a body mean, and how a request is said.

::

    server                                        client
    match(method, path) -> Match                  call_of(request) -> RestCall(method, target, body)
    Match.request(query, content_type, body, now) answer_of(request, status, body) -> response

The faults of a call are checked in the order of the published servers: path, method, numbers in
the path, query, body, names.
"""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

import msgspec

from borzoi.model.errors import GroupNotFound, ResourceNotFound
from borzoi.model.identifiers import identifier_of
from borzoi.model.limits import U32_MAX
from borzoi.protocol.commands.groups import GetConsumerGroup
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.system import GetClient
from borzoi.protocol.commands.topics import GetTopic
from borzoi.protocol.commands.users import GetUser
from borzoi.protocol.rest import faults, inputs
from borzoi.protocol.rest.consuming import consumer_id_of, consumer_of, printed_identifier
from borzoi.protocol.rest.documents import decode_document
from borzoi.protocol.rest.errors import error_from
from borzoi.protocol.rest.routes import ROUTES, Route, route_of


class RestCall(NamedTuple):
    """A request as HTTP carries it; `body` is JSON, or None when there is none."""

    method: str
    target: str
    body: bytes | None


# ---- path parameters ----------------------------------------------------------------------------


def _u32(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= U32_MAX):
        raise faults.bad_path(f"{text[:40]!r} is not a u32")
    return int(text)


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise faults.bad_path(f"{text[:40]!r} is not a bool")
    return text == "true"


_EARLY: Final[Mapping[str, Callable[[str], object]]] = {
    "client_id": _u32,
    "partition_id": _u32,
    "fsync": _flag,
    "name": str,
}


def _printed(request: object, parameter: str) -> str:
    match parameter:
        case "consumer_id":
            consumer = getattr(request, "consumer")  # noqa: B009 - requests have no common type
            return printed_identifier(consumer_id_of(consumer))
        case "fsync":
            return "true" if getattr(request, parameter) else "false"
        case "client_id" | "partition_id" | "name":
            return str(getattr(request, parameter))
    return printed_identifier(getattr(request, parameter))


# ---- the server's side --------------------------------------------------------------------------


class _Node:
    """A segment of a path: fixed words win over parameters, as in `/users/login`."""

    __slots__ = ("children", "parameter", "routes")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, Route] = {}


def _tree(routes: tuple[Route, ...]) -> _Node:
    root = _Node()
    for route in routes:
        node = root
        for segment in route.segments:
            if segment.startswith("{"):
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.children.setdefault(segment, _Node())
        node.routes[route.method] = route
    return root


_TREE: Final = _tree(ROUTES)

#: How many paths are kept with what they mean, and how long those are: names may be long.
KEPT_MATCHES: Final = 512
KEPT_PATH_MAX: Final = 256


class Match:
    """A route and what its parameters are in this path.

    Programs call few paths over and over, so matches are kept, and with them what the path says.
    """

    __slots__ = ("_identified", "_parameters", "route", "segments")

    def __init__(self, route: Route, segments: tuple[str, ...]) -> None:
        self.route = route
        #: Of the path, still percent-encoded.
        self.segments = segments
        self._parameters: dict[str, str] | None = None
        self._identified: dict[str, Any] | None = None

    def request(
        self, query: str = "", content_type: str | None = None, body: bytes = b"", *, now: int
    ) -> Any:
        """The request; `HttpFault` for what is not one, the protocol's errors for a wrong one."""
        route = self.route
        arguments: dict[str, object] = {
            name: _EARLY[name](text) for name, text in self._texts().items() if name in _EARLY
        }
        given = [_read_query(route.query, query)] if route.query else []
        if route.body:
            given.append(_read_body(route.body, content_type, body))
        arguments |= self.identifiers()
        for each in given:
            arguments |= each.arguments(now=now)
        return route.request(**arguments)

    def with_arguments(self, arguments: Mapping[str, object]) -> Any:
        """The request of this path and of arguments that did not come as one body."""
        return self.route.request(**self.identifiers(), **arguments)

    def identifiers(self) -> dict[str, Any]:
        """What the path names."""
        if self._identified is None:
            self._identified = _identifiers(self._texts())
        return self._identified

    def _texts(self) -> dict[str, str]:
        """The parameters of the path."""
        if self._parameters is None:
            self._parameters = {
                name[1:-1]: _decoded(segment)
                for name, segment in zip(self.route.segments, self.segments, strict=True)
                if name.startswith("{")
            }
        return self._parameters


def _identifiers(texts: Mapping[str, str]) -> dict[str, Any]:
    """The parameters that name something; a consumer is named like the others."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if name == "consumer_id":
            found["consumer"] = consumer_of(identifier_of(text))
        elif name not in _EARLY:
            found[name] = identifier_of(text)
    return found


def match(method: str, path: str) -> Match:
    """The route of a call; 404 for an unknown path, 405 for a known one without that method."""
    return (_kept_match if len(path) <= KEPT_PATH_MAX else _match)(method, path)


def _match(method: str, path: str) -> Match:
    segments = _split(path)
    node = _node_at(segments)
    route = node.routes.get("GET" if method == "HEAD" else method)
    if route is None:
        raise faults.unknown_method(_allowed(node))
    return Match(route, segments)


_kept_match = lru_cache(maxsize=KEPT_MATCHES)(_match)


def allowed_methods(path: str) -> tuple[str, ...]:
    """The methods a path has, HEAD included; 404 for an unknown path."""
    return _allowed(_node_at(_split(path)))


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix("/").split("/"))


def _node_at(segments: tuple[str, ...]) -> _Node:
    node = _TREE
    for segment in segments:
        below = node.children.get(segment) or (node.parameter if segment else None)
        if below is None:
            raise faults.unknown_path()
        node = below
    if not node.routes:
        raise faults.unknown_path()
    return node


def _allowed(node: _Node) -> tuple[str, ...]:
    methods: list[str] = []
    for method in node.routes:
        methods += ["GET", "HEAD"] if method == "GET" else [method]
    return tuple(methods)


def _decoded(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise faults.bad_path(f"{segment[:40]!r} is not UTF-8") from None


def _read_query(shape: type[inputs.Input[Any]], query: str) -> inputs.Input[Any]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
        parameters = dict(pairs)
        if len(parameters) != len(pairs):
            raise faults.bad_query("a parameter is given twice")
        given: inputs.Input[Any] = msgspec.convert(parameters, shape, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError) as fault:
        raise faults.bad_query(str(fault)) from None
    return given


def _read_body(
    shape: type[inputs.Input[Any]], content_type: str | None, body: bytes
) -> inputs.Input[Any]:
    if not _is_json(content_type):
        raise faults.bad_content_type()
    try:
        given: inputs.Input[Any] = _decoder(shape).decode(body)
    except msgspec.ValidationError as fault:
        raise faults.bad_shape(str(fault)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise faults.bad_syntax(str(fault)) from None
    return given


@cache
def _decoder(shape: type[inputs.Input[Any]]) -> "msgspec.json.Decoder[inputs.Input[Any]]":
    return msgspec.json.Decoder(shape)


def _is_json(content_type: str | None) -> bool:
    if content_type == "application/json":
        return True
    essence = (content_type or "").partition(";")[0].strip().lower()
    return essence == "application/json" or (
        essence.startswith("application/") and essence.endswith("+json")
    )


# ---- the client's side --------------------------------------------------------------------------


def call_of(request: object) -> RestCall:
    """Encode a request as an HTTP call."""
    route = route_of(request)
    path = "/".join(
        quote(_printed(request, segment[1:-1]), safe="") if segment.startswith("{") else segment
        for segment in route.segments
    )
    query = ""
    if route.query:
        parameters = msgspec.to_builtins(route.query.of(request))
        query = urlencode({name: text for name, text in parameters.items() if text is not None})
    body = msgspec.json.encode(route.body.of(request)) if route.body else None
    return RestCall(route.method, f"/{path}" + (f"?{query}" if query else ""), body)


#: A read of these that finds nothing is no error.
_OPTIONAL: Final = (
    GetStream,
    GetTopic,
    GetUser,
    GetClient,
    GetConsumerGroup,
    GetConsumerOffset,
)


def answer_of(request: object, status: int, body: bytes) -> Any:
    """What the server answered: a response, a text, an archive, or None for nothing.

    A read that found nothing is None as well; every other failure is raised.
    """
    route = route_of(request)
    if status != route.status:
        error = error_from(status, body)
        if isinstance(error, ResourceNotFound | GroupNotFound) and isinstance(request, _OPTIONAL):
            return None
        raise error
    if route.answer is None:
        return None
    if route.answer is bytes:
        return body
    if route.answer is str:
        return body.decode("utf-8", "replace")
    return decode_document(route.answer, body)
