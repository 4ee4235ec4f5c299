"""Reading the golden files and the table of differences."""

from pathlib import Path

import pytest
from tests.support.golden import (
    DIFFERENCES,
    EXCHANGES,
    REQUESTS,
    What,
    read_differences,
    read_exchanges,
    read_requests,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_an_exchange_has_a_frame_and_an_answer():
    first = next(iter(read_exchanges(GOLDEN)))
    assert (first.scenario, first.command, first.code) == ("session", "ping", 1)
    assert first.frame == bytes.fromhex("0400000001000000")
    assert (first.status, first.payload, first.closes) == (0, b"", False)


def test_long_requests_are_written_as_runs_and_joined_when_asked_for():
    longest = max(
        read_exchanges(GOLDEN), key=lambda exchange: max(times for _, times in exchange.runs)
    )
    assert len(longest.runs) > 1
    assert len(longest.frame) > 60_000_000


def test_tokens_and_ids_of_earlier_answers_are_substituted():
    substituted = [exchange for exchange in read_exchanges(GOLDEN) if exchange.substitutions]
    assert substituted
    for exchange in substituted:
        for part in exchange.substitutions:
            start, stop = part.request_range
            assert part.from_n < exchange.n
            assert stop - start == part.from_range[1] - part.from_range[0]
            assert stop <= len(exchange.frame)


def test_some_scenarios_need_an_environment_and_some_answers_are_volatile():
    exchanges = list(read_exchanges(GOLDEN))
    assert any(exchange.environment for exchange in exchanges)
    assert any(exchange.closed_by_server for exchange in exchanges)
    assert {exchange.volatile for exchange in exchanges if isinstance(exchange.volatile, str)} == {
        "zip",
        "clients",
        "unordered",
        "defect",
    }


def test_requests_of_other_dialects_are_left_out():
    requests = list(read_requests(GOLDEN))
    assert {request.client for request in requests} == {
        "apache-iggy 0.7.0",
        "apache-iggy 0.8.0",
        "node SDK 0.8.0 sources",
    }
    assert requests[0].line == 1


def test_the_table_remembers_what_was_needed():
    differences = read_differences(GOLDEN)
    assert differences.find(EXCHANGES, 1, What.ANSWER) is None
    found = differences.find(EXCHANGES, 2, What.TRAILING_BYTES)
    assert found is not None
    assert found.scenario == "session"
    unneeded = differences.unneeded(EXCHANGES, What.TRAILING_BYTES)
    assert found not in unneeded
    assert {difference.file for difference in unneeded} == {EXCHANGES}
    assert len(differences.unneeded(REQUESTS, *What)) == 2


ENTRY = '[[difference]]\nfile = "f"\nseq = 1\nwhat = "{what}"\nreason = "because"\n{more}\n'


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (ENTRY.format(what="answer", more="") * 2, ValueError),
        (ENTRY.format(what="whatever", more=""), ValueError),
        (ENTRY.format(what="answer", more="surprise = 1"), TypeError),
    ],
)
def test_a_careless_entry_is_refused(tmp_path, table, fault):
    (tmp_path / DIFFERENCES).write_text(table, encoding="utf-8")
    with pytest.raises(fault):
        read_differences(tmp_path)
