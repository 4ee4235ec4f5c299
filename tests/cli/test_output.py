import json
from enum import Enum

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from borzoi.cli.output import Format, chosen, done, emit, emit_list, note, plain, yaml_of

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | texts
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20
)


@given(documents)
def test_yaml_means_what_json_means(document):
    assert yaml.safe_load(yaml_of(document)) == document


def test_yaml_is_pleasant_to_read():
    document = {"name": "shop", "topics": [{"id": 1, "name": "on"}, {"id": 2, "empty": []}]}
    assert yaml_of(document) == (
        'name: shop\ntopics:\n  - id: 1\n    name: "on"\n  - id: 2\n    empty: []\n'
    )


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({1: Colour.RED}, {"1": "red"}),
        ((1, 2), [1, 2]),
        (b"abc", "abc"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (memoryview(b"x"), "x"),
        (None, None),
    ],
)
def test_only_what_json_has_is_left(value, found):
    assert plain(value) == found


def test_a_list_mode_is_for_tables_only():
    assert chosen("table", "list") is Format.LIST
    assert chosen("json", "list") is Format.JSON
    assert chosen("table") is Format.TABLE


ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
COLUMNS = {"id": "ID", "name": "Name"}


def test_a_list_in_every_format(capsys):
    emit_list(ROWS, COLUMNS, Format.JSON)
    assert json.loads(capsys.readouterr().out) == ROWS
    emit_list(ROWS, COLUMNS, Format.JSONL)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS
    emit_list(ROWS, COLUMNS, Format.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == ROWS
    emit_list(ROWS, COLUMNS, Format.LIST)
    assert capsys.readouterr().out == "1|a\n2|b\n"
    emit_list(ROWS, COLUMNS, Format.TABLE)
    assert " 1  a   " in capsys.readouterr().out


def test_an_empty_list_is_still_a_document(capsys):
    emit_list([], COLUMNS, Format.JSON)
    assert capsys.readouterr().out == "[]\n"


def test_one_thing_and_a_change(capsys):
    emit({"stream_id": 1}, Format.TABLE)
    assert "stream id" in capsys.readouterr().out
    done("It was made.", {"id": 1}, Format.TABLE)
    assert capsys.readouterr().out == "It was made.\n"
    done("It was made.", {"id": 1}, Format.JSONL)
    assert capsys.readouterr().out == '{"id": 1}\n'


def test_notes_keep_out_of_the_document(capsys):
    note("for people")
    assert capsys.readouterr() == ("", "for people\n")
