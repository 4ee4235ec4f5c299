"""The routes as an OpenAPI 3.1 document, from the table and the types it names.

What a type cannot say (the words of an enumeration, names of 1 to 255 bytes) is said here, by the
name of its field.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from borzoi.model.limits import NAME_BYTES_MAX, U32_MAX, U64_MAX
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.rest.documents import DOCUMENTS
from borzoi.protocol.rest.errors import ErrorDocument
from borzoi.protocol.rest.messages import SendInput
from borzoi.protocol.rest.routes import PUBLIC_PATHS, ROUTES, Route
from borzoi.protocol.rest.words import (
    COMPRESSIONS,
    HEADER_KINDS,
    PARTITIONINGS,
    POLLINGS,
    SNAPSHOT_COMPRESSIONS,
    SNAPSHOT_KINDS,
    USER_STATUSES,
)

JSON: Final = "application/json"
TEXT: Final = "text/plain"
NDJSON: Final = "application/x-ndjson"
REFERENCE: Final = "#/components/schemas/{name}"

#: How a path says what it is about.
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": U32_MAX}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": NAME_BYTES_MAX}
PATH_PARAMETERS: Final[Mapping[str, dict[str, Any]]] = {
    "client_id": _NUMBER,
    "partition_id": _NUMBER,
    "fsync": {"type": "boolean"},
    "name": _NAME,
}
_IDENTIFIER: Final = {**_NAME, "description": "a number, or a name"}

#: What the words of a field are, by the type and the field.
WORDS: Final[Mapping[tuple[str, str], list[str]]] = {
    ("CreateUserInput", "status"): USER_STATUSES.words,
    ("UpdateUserInput", "status"): USER_STATUSES.words,
    ("TopicInput", "compression_algorithm"): COMPRESSIONS.words,
    ("CreateTopicInput", "compression_algorithm"): COMPRESSIONS.words,
    ("PartitioningInput", "kind"): PARTITIONINGS.words,
    ("PollInput", "kind"): POLLINGS.words,
    ("FollowInput", "kind"): POLLINGS.words,
    ("HeaderHalf", "kind"): HEADER_KINDS.words,
    ("SnapshotInput", "compression"): SNAPSHOT_COMPRESSIONS.words,
}

_TAGS: Final = {
    "users": "users",
    "personal-access-tokens": "tokens",
    "streams": "streams",
    "clients": "system",
    "cluster": "system",
}


def openapi(version: str, routes: Iterable[Route] = ROUTES) -> dict[str, Any]:
    """The document."""
    routes = tuple(routes)
    shapes = [shape for route in routes for shape in (route.query, route.body) if shape]
    documents = [DOCUMENTS[answer].document for answer in _answers(routes)]
    types = [*dict.fromkeys([*shapes, ErrorDocument]), *_unique(documents)]
    found, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schemas = dict(zip(map(_key, types), found, strict=True))
    _say_words(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operations = paths.setdefault(route.template, {})
        operations[route.method.lower()] = _operation(route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "borzoi",
            "version": version,
            "description": "Streams of messages over HTTP. Log in, then send the token as"
            " `Authorization: Bearer …`.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            },
        },
    }


def _answers(routes: Iterable[Route]) -> Iterable[type]:
    """The types of those answers that are documents."""
    return (route.answer for route in routes if route.answer in DOCUMENTS and route.answer)


def _unique(types: Iterable[Any]) -> list[Any]:
    return list({_key(each): each for each in types}.values())


def _key(shape: Any) -> str:
    return str(shape)


def _say_words(components: dict[str, Any]) -> None:
    for (name, field), words in WORDS.items():
        if name in components:
            described = components[name]["properties"][field]
            for choice in described.get("anyOf", [described]):
                if choice.get("type") == "string":
                    choice["enum"] = words
    for name, described in components.items():
        for field, schema in described.get("properties", {}).items():
            _say_bounds(name, field, schema)


def _say_bounds(name: str, field: str, schema: dict[str, Any]) -> None:
    """Numbers fit 64 bits, a payload has a byte, and snapshots have kinds."""
    if schema.get("type") == "integer" and name.endswith("Input"):
        schema.setdefault("maximum", U64_MAX)
    if (name, field) == ("MessageInput", "payload"):
        schema["minLength"] = 1
    if (name, field) == ("SnapshotInput", "snapshot_types"):
        schema["items"] = {"type": "string", "enum": SNAPSHOT_KINDS.words}


def _operation(
    route: Route, schemas: Mapping[str, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    name = getattr(route.request, "__name__", "")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": words.capitalize(),
        "tags": [_TAGS.get(route.segments[0], "system")],
        "parameters": [*_path_parameters(route), *_query_parameters(route, components)],
        "responses": _responses(route, schemas),
    }
    if route.body:
        schema = schemas[_key(route.body)]
        content: dict[str, Any] = {JSON: {"schema": schema}}
        if route.body is SendInput:
            content[NDJSON] = {"schema": {"type": "string", "description": "a message a line"}}
        operation["requestBody"] = {"required": True, "content": content}
    operation["security"] = [] if route.template in PUBLIC_PATHS else [{"token": []}]
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": segment[1:-1],
            "in": "path",
            "required": True,
            "schema": PATH_PARAMETERS.get(segment[1:-1], _IDENTIFIER),
        }
        for segment in route.segments
        if segment.startswith("{")
    ]


def _query_parameters(route: Route, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not route.query:
        return []
    described = components[route.query.__name__]
    required = described.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in described["properties"].items()
    ]


def _responses(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.status.phrase}
    for answer in _answers([route]):
        schema = schemas[_key(DOCUMENTS[answer].document)]
        success["content"] = {JSON: {"schema": schema}}
        if answer is PolledMessages:
            success["content"][NDJSON] = {"schema": {"type": "string"}}
    if route.answer is str:
        success["content"] = {TEXT: {"schema": {"type": "string"}}}
    if route.answer is bytes:
        success["content"] = {route.media.partition(";")[0]: {}}
    responses = {str(route.status.value): success}
    error = {JSON: {"schema": schemas[_key(ErrorDocument)]}}
    either = {**error, TEXT: {"schema": {"type": "string"}}}
    for status, content in _failures(route, error, either).items():
        responses[str(status.value)] = {"description": status.phrase}
        if content:
            responses[str(status.value)]["content"] = content
    return responses


def _failures(
    route: Route, error: dict[str, Any], either: dict[str, Any]
) -> dict[HTTPStatus, dict[str, Any]]:
    """Which statuses a call may fail with, and what their bodies are."""
    failures: dict[HTTPStatus, dict[str, Any]] = {HTTPStatus.BAD_REQUEST: either}
    if route.template not in PUBLIC_PATHS:
        # Without a good token the body is empty.
        failures[HTTPStatus.UNAUTHORIZED] = {}
        failures[HTTPStatus.FORBIDDEN] = error
    elif route.body:
        failures[HTTPStatus.UNAUTHORIZED] = error
    failures[HTTPStatus.NOT_FOUND] = error
    if route.body:
        text = {TEXT: {"schema": {"type": "string"}}}
        for status in (
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            HTTPStatus.UNPROCESSABLE_ENTITY,
        ):
            failures[status] = text
    if route.template == "/health/ready":
        failures[HTTPStatus.SERVICE_UNAVAILABLE] = {TEXT: {"schema": {"type": "string"}}}
    return failures
