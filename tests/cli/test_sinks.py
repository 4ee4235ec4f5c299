import json

import msgspec
import pytest

from borzoi.cli.faults import CommandFailed
from borzoi.cli.printing import record_of_message
from borzoi.cli.sinks import line_of, opened_sink
from borzoi.client.messages import Message, encoded_headers


def message(payload, headers=None):
    identifier = (1 << 100).to_bytes(16, "little")
    return Message(3, 0, identifier, 7, 1_700, 1_600, payload, encoded_headers(headers))


@pytest.mark.parametrize(
    "payload",
    [
        b"text",
        b'"quoted"',
        b'{"a": [1, 2.5, null]}',
        b'{"a":\n  1}',
        b"[1,\r2]",
        b"{oops}",
        b'{"a": "\xff"}',
        b"\xff\xfe",
        b"",
        b"7",
    ],
)
@pytest.mark.parametrize("headers", [None, {"kind": "x", "n": 1}])
def test_a_line_is_the_document_of_the_message(payload, headers):
    one = message(payload, headers)
    line = msgspec.json.encode(line_of(one))
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line) == record_of_message(one)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_batches_follow_each_other(tmp_path, form):
    path = tmp_path / "out"
    with opened_sink(form, path) as sink:
        sink([message(b"a"), message(b"b")])
        sink([])
        sink([message(b"c,\n")])
    lines = path.read_text().splitlines()
    assert len(lines) == {"jsonl": 3, "csv": 5}[form]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_a_place_that_cannot_be_written(tmp_path, form):
    with pytest.raises(CommandFailed, match="cannot be"), opened_sink(form, tmp_path / "no" / "x"):
        pass
