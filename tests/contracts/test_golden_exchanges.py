"""Every recorded exchange is read and written byte for byte, or refused with the recorded status.

What differs on purpose is in ``tests/golden/differences.toml`` and nowhere else.
"""

from collections import Counter
from pathlib import Path

import pytest
from tests.support.golden import EXCHANGES, Exchange, What, read_differences, read_exchanges
from tests.support.request_frames import RequestReader

from borzoi.model.errors import BorzoiError
from borzoi.protocol.catalog import REQUESTS, Request, decode_request, decode_response
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import ERRORS, code_of
from borzoi.protocol.framing import (
    ResponseDecoder,
    encode_request,
    encode_response,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
LINES = 2306

#: Statuses that say "malformed": decoding answers them before authentication.
MALFORMED = {3, 4, 6}


STATUSES = {row.code for row in ERRORS}


@pytest.fixture(scope="module")
def differences():
    return read_differences(GOLDEN)


@pytest.fixture(scope="module")
def exchanges():
    return list(read_exchanges(GOLDEN))


def read(exchange: Exchange) -> Request:
    decoder = RequestReader()
    decoder.feed(exchange.frame)
    frame = decoder.next_request()
    assert frame is not None
    assert decoder.next_request() is None
    assert frame.code == exchange.code
    return decode_request(frame.code, frame.payload)


def refused_with(exchange: Exchange) -> int | None:
    """The status that decoding the request comes to, None when it is well-formed."""
    try:
        read(exchange)
    except BorzoiError as error:
        return code_of(error)
    return None


def test_every_malformed_request_is_refused_with_the_recorded_status(exchanges, differences):
    wrong = []
    for exchange in exchanges:
        if exchange.closes:
            continue
        status, expected = refused_with(exchange), exchange.status
        if status is None and expected not in MALFORMED:
            continue
        if status == expected:
            continue
        difference = differences.find(EXCHANGES, exchange.seq, What.ANSWER)
        if difference is not None and (
            difference.status == status or (status is None and difference.status not in MALFORMED)
        ):
            continue
        wrong.append((exchange.seq, exchange.step, status, expected))
    assert wrong == []


def test_every_other_request_is_written_as_it_was_read(exchanges, differences):
    wrong = []
    for exchange in exchanges:
        if exchange.closes or refused_with(exchange) is not None:
            continue
        sent, written = exchange.frame, encode_request(read(exchange))
        if written == sent:
            continue
        trailing = differences.find(EXCHANGES, exchange.seq, What.TRAILING_BYTES)
        canonical = differences.find(EXCHANGES, exchange.seq, What.CANONICAL)
        if trailing is not None and len(written) < len(sent) and sent[8:].startswith(written[8:]):
            continue
        if canonical is not None and written == canonical.rewritten:
            continue
        wrong.append((exchange.seq, exchange.step, sent.hex()[:200], written.hex()[:200]))
    assert wrong == []
    assert differences.unneeded(EXCHANGES, What.TRAILING_BYTES, What.CANONICAL) == []


def test_every_answer_is_written_as_it_was_read(exchanges):
    wrong = []
    for exchange in exchanges:
        if exchange.closes:
            continue
        recorded = encode_response(exchange.status, exchange.payload)
        decoder = ResponseDecoder()
        decoder.feed(recorded + exchange.extra)
        frame = decoder.next_response()
        assert frame is not None
        assert (frame.status, frame.payload) == (exchange.status, exchange.payload)
        while pushed := decoder.next_response():
            assert pushed.status in STATUSES
        if exchange.status:
            continue
        answer = decode_response(REQUESTS[exchange.code], frame.payload)
        written = b"" if answer is None else encode_payload(answer)
        if written != exchange.payload:
            wrong.append((exchange.seq, exchange.step, written.hex()[:200]))
    assert wrong == []


def test_every_difference_is_about_a_line_that_is_there(exchanges, differences):
    scenarios = {exchange.seq: exchange.scenario for exchange in exchanges}
    for difference in differences.table.values():
        assert len(difference.reason) > 10
        if difference.file == EXCHANGES:
            assert scenarios[difference.seq] == difference.scenario


def test_every_recorded_quirk_is_either_copied_or_explained(exchanges, differences):
    explained = {seq for file, seq, _ in differences.table if file == EXCHANGES}
    same_anyway = {
        922: "the session is user 13 by another way",
        923: "a logout of that session",
        2664: "copied: a stale session goes on",
        2672: "copied: a stale session goes on",
    }
    quirks = {exchange.seq for exchange in exchanges if exchange.quirk}
    assert quirks - explained == same_anyway.keys()


def test_all_commands_were_seen_both_ways(exchanges, capsys):
    kinds: Counter[str] = Counter()
    asked: set[int] = set()
    answered: set[int] = set()
    for exchange in exchanges:
        if exchange.closes:
            kinds["closed connections"] += 1
        elif refused_with(exchange) is not None:
            kinds["requests refused"] += 1
        else:
            kinds["requests read and written"] += 1
            asked.add(exchange.code)
            if exchange.status == 0:
                kinds["answers read and written"] += 1
                answered.add(exchange.code)
    read_lines = kinds.total() - kinds["answers read and written"]
    with capsys.disabled():
        print(
            f"\n{EXCHANGES}: {read_lines} of {LINES} lines"
            f" ({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))});"
            f" commands both ways: {len(asked & answered)} of {len(Code)}"
        )
    assert read_lines == len(exchanges) == LINES
    assert asked == answered == set(map(int, Code))
    assert len(Code) == 47
