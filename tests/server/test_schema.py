from pathlib import Path

from borzoi.server.config import KEYS
from borzoi.server.schema import json_schema, markdown_table

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "configuration.md"


def test_the_documentation_has_the_table_of_all_keys() -> None:
    assert markdown_table(KEYS) in DOCUMENT.read_text(), (
        "run: borzoi config schema --format markdown, and put the table into docs/configuration.md"
    )


def test_the_schema_has_every_key_at_its_place() -> None:
    schema = json_schema(KEYS)
    tls = schema["properties"]["tcp"]["properties"]["tls"]["properties"]
    assert tls["enabled"]["default"] is False
    others = schema["properties"]["cluster"]["properties"]["node"]["properties"]["others"]
    assert others["items"]["properties"]["ports"]["properties"]["tcp"]["maximum"] == 65535
