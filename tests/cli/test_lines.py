import json

import pytest
from tests.support.messages_read import polled_run

from borzoi.cli.lines import lines_of
from borzoi.cli.printing import record_of_message
from borzoi.client.messages import decode_messages
from borzoi.records.message import Message

#: Payloads of one batch: all of them JSON on one line, or not for one reason each.
BATCHES = [
    [b'{"a": [1, 2.5, null]}', b"[]", b'{"\xc3\xa9": "\xc3\xa9"}'],
    [b"text", b'"quoted"', b"7", b'{"a": 1}'],
    [b'{"a":\n  1}', b"[1,\r2]", b"{}"],
    [b"{oops}", b"{}"],
    [b'{"a": "\xff"}', b"{}"],
    [b"\xff\xfe"],
    [b"{}", b""],
    [b""],
    # Together these would be an array of three values, and none of them is one.
    [b"[1", b"2]", b"{},{}"],
    [b"[1 ", b" 2]", b"[3]"],
    [b"[1],[2]", b"[3]"],
    [b"[1] ", b"[2]"],
    [b"[1]]", b"[[2]"],
]


@pytest.mark.parametrize("payloads", BATCHES)
@pytest.mark.parametrize("headers", [None, {"kind": "x", "n": 1, "raw": b"\xff"}])
def test_a_line_is_the_document_of_its_message(payloads, headers):
    sent = [Message(payload, id=(1 << 128) - 1 - place) for place, payload in enumerate(payloads)]
    run = polled_run(sent, headers=headers)
    lines = lines_of(3, run).split(b"\n")
    assert lines.pop() == b""
    assert not any(b"\r" in line for line in lines)
    messages = decode_messages(run.buffer, 3)
    assert [json.loads(line) for line in lines] == [record_of_message(one) for one in messages]


def test_messages_that_were_left_out_have_no_line():
    run = polled_run([Message(b"a"), Message(b"b"), Message(b"c")])
    kept = run.chosen(run.headers["offset"] != 1)
    assert [json.loads(line)["payload"] for line in lines_of(0, kept).splitlines()] == ["a", "c"]
