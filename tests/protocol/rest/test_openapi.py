"""The description is whole: every route, every reference, every word."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from borzoi.protocol.rest.openapi import WORDS, openapi
from borzoi.protocol.rest.routes import PUBLIC_PATHS, ROUTES, Route

DOCUMENT = openapi("1.2.3")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def operation_of(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][route.template][route.method.lower()]
    return found


def test_it_is_json_with_a_version() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_every_reference_leads_somewhere_and_every_schema_is_referred_to() -> None:
    found = {name.removeprefix("#/components/schemas/") for name in references(DOCUMENT)}
    schemas = set(DOCUMENT["components"]["schemas"])
    assert found <= schemas
    # Queries are written out as parameters.
    assert schemas - found == {route.query.__name__ for route in ROUTES if route.query} - found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.template}")
def test_every_route_is_described(route: Route) -> None:
    operation = operation_of(route)
    assert str(route.status.value) in operation["responses"]
    in_path = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
    assert in_path == [part[1:-1] for part in route.segments if part.startswith("{")]
    assert operation["security"] == ([] if route.template in PUBLIC_PATHS else [{"token": []}])
    assert ("requestBody" in operation) == (route.body is not None)
    content = operation["responses"][str(route.status.value)].get("content")
    assert bool(content) == (route.answer is not None)


def test_operations_have_different_names() -> None:
    names = [operation_of(route)["operationId"] for route in ROUTES]
    assert len(set(names)) == len(names)


def test_words_are_those_that_are_accepted() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for (name, field), words in WORDS.items():
        assert words
        assert json.dumps(words) in json.dumps(schemas[name]["properties"][field])
    kinds = schemas["SnapshotInput"]["properties"]["snapshot_types"]["items"]["enum"]
    assert "All" in kinds


def test_a_part_of_the_table_is_described_by_itself() -> None:
    small = openapi("1", [route for route in ROUTES if route.template == "/ping"])
    assert list(small["paths"]) == ["/ping"]
    assert set(small["components"]["schemas"]) == {"ErrorDocument"}
