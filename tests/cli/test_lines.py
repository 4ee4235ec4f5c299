import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.accelerators import needs_accelerator, without_accelerator
from tests.support.messages_read import polled_run

from borzoi.cli.lines import lines_of
from borzoi.cli.printing import record_of_message
from borzoi.client.messages import decode_messages
from borzoi.records.accelerator import native
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


# ---- the accelerator writes the same -----------------------------------------------------------

documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
json_texts = st.builds(
    lambda document, is_ascii, gap: json.dumps(
        document, ensure_ascii=is_ascii, separators=("," + gap, ":" + gap)
    ).encode("utf-8", "surrogatepass"),
    documents,
    st.booleans(),
    st.sampled_from(["", " ", "\t", "\n"]),
)
payloads = json_texts | st.binary(max_size=60) | st.text(max_size=60).map(str.encode)


@needs_accelerator
@given(
    st.lists(st.tuples(payloads, st.integers(0, 2**128 - 1)), max_size=5),
    st.integers(0, 200),
    st.integers(0, 255),
    st.integers(0, 2**32 - 1),
)
def test_a_batch_has_the_same_lines_with_and_without_the_accelerator(
    sent, place: int, damage: int, partition: int
) -> None:
    for first, identifier in sent[:1]:
        broken = bytearray(first)
        broken[place : place + 1] = bytes([damage])
        sent = [*sent, (bytes(broken), identifier)]
    # One by one too: a payload that only Python can write hides the others of its batch.
    for batch in (sent, *([one] for one in sent)):
        run = polled_run([Message(payload, id=number) for payload, number in batch])
        accelerated = bytes(lines_of(partition, run))
        with without_accelerator():
            assert lines_of(partition, run) == accelerated


@needs_accelerator
@pytest.mark.parametrize("number", range(256))
def test_every_byte_is_written_alike(number: int) -> None:
    for payload in (bytes([number]), b"x" * 31 + bytes([number, 0x80]), b'{"%c": 1}' % number):
        run = polled_run([Message(payload)])
        accelerated = bytes(lines_of(0, run))
        with without_accelerator():
            assert lines_of(0, run) == accelerated


@needs_accelerator
@pytest.mark.parametrize(
    "payload",
    [
        b"text",
        b"",
        b'tab \t, quote " and \x01',
        "é € 𝄞".encode(),
        b'{"a": [1, -2.5, null, true, false, "\xc3\xa9\\n"], "b": {}}',
        b"[]",
    ],
)
def test_common_payloads_are_not_left_to_python(payload: bytes) -> None:
    assert native is not None
    run = polled_run([Message(payload)] * 3)
    written = native.json_lines(run.buffer, run.starts, 1)
    assert written is not None
    assert written.count(b"\n") == 3


@needs_accelerator
@pytest.mark.parametrize(
    "payload", [b"\xff", b"{oops}", b'{"a":\n1}', b"[1e400]", b"[" * 40 + b"]" * 40]
)
def test_what_needs_rules_is_left_to_python(payload: bytes) -> None:
    assert native is not None
    run = polled_run([Message(b"text"), Message(payload)])
    assert native.json_lines(run.buffer, run.starts, 1) is None
    assert native.json_lines(run.buffer, np.array([0]), 1) is not None
