import json

import pytest
import yaml
from tests.support.messages_read import message

from borzoi.cli.faults import CommandFailed
from borzoi.cli.output import Format
from borzoi.cli.printing import FIELDS, fields_of, print_messages, record_of_message, templated
from borzoi.cli.tables import when

MESSAGES = [message('{"a": 1}', 1), message("plain", 2, kind="x")]


@pytest.mark.parametrize(
    ("payload", "found"),
    [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("{oops", "{oops"), ("12", "12"), ("text", "text")],
)
def test_only_objects_and_lists_are_shown_as_json(payload, found):
    assert record_of_message(message(payload))["payload"] == found


def test_a_document_of_a_message():
    assert record_of_message(MESSAGES[1]) == {
        "partition": 0,
        "offset": 2,
        "timestamp": 2_000_000,
        "origin_timestamp": 2_000_000,
        "id": "3",
        "headers": {"kind": "x"},
        "payload": "plain",
    }


def test_every_format_has_the_same_messages(capsys):
    expected = [record_of_message(one) for one in MESSAGES]
    assert print_messages(MESSAGES, Format.JSON) == 2
    assert json.loads(capsys.readouterr().out) == expected
    assert print_messages(MESSAGES, Format.JSONL) == 2
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
    assert print_messages(MESSAGES, Format.YAML) == 2
    assert yaml.safe_load(capsys.readouterr().out) == expected
    assert print_messages(MESSAGES, Format.TABLE) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first == f'0:1  {when(1_000_000)}  {{"a": 1}}'
    assert second.endswith('plain  {"kind": "x"}')


def test_json_stays_a_document_when_something_breaks(capsys):
    def broken():
        yield MESSAGES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_messages(broken(), Format.JSON)
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_a_template(capsys):
    print_messages(MESSAGES, Format.TABLE, template="{offset}:{size} {text}")
    assert capsys.readouterr().out == '1:8 {"a": 1}\n2:5 plain\n'
    assert tuple(fields_of(MESSAGES[0])) == FIELDS


def test_a_template_with_an_unknown_field_prints_nothing(capsys):
    with pytest.raises(CommandFailed, match=r"the format has \{price\}; allowed are partition"):
        print_messages(MESSAGES, Format.TABLE, template="{offset} {price}")
    assert capsys.readouterr().out == ""
    assert list(templated("a{offset}b")) == [("a", "offset"), ("b", "")]
