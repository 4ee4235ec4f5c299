"""Every frame that a published client sent is read and written byte for byte, with its answer.

What differs on purpose is in ``tests/golden/differences.toml`` and nowhere else.
"""

from pathlib import Path

import pytest
from tests.support.golden import REQUESTS, What, read_differences, read_requests
from tests.support.request_frames import RequestReader

from borzoi.protocol.catalog import decode_request, decode_response
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.framing import encode_request

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINES = 138
OTHER_DIALECTS = 27


@pytest.fixture(scope="module")
def recorded():
    return list(read_requests(GOLDEN))


def read(frame: bytes):
    decoder = RequestReader()
    decoder.feed(frame)
    request = decoder.next_request()
    assert request is not None
    return decode_request(request.code, request.payload)


def test_every_request_is_written_as_it_was_read(recorded, capsys):
    differences = read_differences(GOLDEN)
    same = 0
    wrong = []
    for line in recorded:
        written = encode_request(read(line.frame))
        if written == line.frame:
            same += 1
        elif differences.find(REQUESTS, line.line, What.TRAILING_BYTES) is None or not (
            line.frame[8:].startswith(written[8:])
        ):
            wrong.append((line.line, line.command, line.client, written.hex()))
    with capsys.disabled():
        print(
            f"\n{REQUESTS}: {len(recorded) - len(wrong)} of {LINES} lines of this dialect,"
            f" {same} of them byte for byte, {len(recorded) - same} without trailing bytes;"
            f" {len({line.code for line in recorded})} of {len(Code)} commands"
        )
    assert wrong == []
    assert len(recorded) == LINES
    assert differences.unneeded(REQUESTS, *What) == []
    assert set(Code) - {line.code for line in recorded} == {Code.GET_SNAPSHOT}


def test_every_answer_a_client_accepted_is_written_as_it_was_read(recorded):
    wrong = []
    for line in recorded:
        answer = decode_response(type(read(line.frame)), line.payload)
        if (b"" if answer is None else encode_payload(answer)) != line.payload:
            wrong.append((line.line, line.command, line.payload.hex()))
    assert wrong == []


def test_no_line_of_this_dialect_is_left_out():
    lines = (GOLDEN / REQUESTS).read_text(encoding="utf-8").splitlines()
    assert len(lines) == LINES + OTHER_DIALECTS
