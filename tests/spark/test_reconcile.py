"""Markers, and what a task concludes from them."""

import pytest

from borzoi.spark.reconcile import BEGIN, Doubt, Marker, chosen, control_topic, doubt, marker_of

COMMITTED = Marker("q", "s/t", 5, "run-1", {0: 10, 1: 20})


def test_a_marker_survives_its_message() -> None:
    assert marker_of(COMMITTED.to_bytes()) == COMMITTED
    again = Marker("q", "s/t", 5, "run-2", {}, skipped=7)
    assert marker_of(again.to_bytes()) == again
    assert marker_of(b'{"query": "q", "topic": "t", "epoch": 1, "run": "", "ends": {}}') is not None


@pytest.mark.parametrize("payload", [b"", b"hello", b"[]", b"{}", b'{"query": 1, "ends": 5}'])
def test_other_messages_are_no_markers(payload: bytes) -> None:
    assert marker_of(payload) is None


def test_markers_lie_beside_the_topic() -> None:
    assert control_topic("shop/totals") == "shop/__borzoi_spark"


def test_the_last_commit_counts_and_the_first_begin() -> None:
    begins = [Marker("q", "s/t", BEGIN, "a", {0: 3}), Marker("q", "s/t", BEGIN, "b", {0: 9})]
    others = [Marker("x", "s/t", 9, "r", {}), Marker("q", "s/u", 9, "r", {})]
    assert chosen([*others, *begins], "q", "s/t") == begins[0]
    older = Marker("q", "s/t", 4, "run-1", {})
    assert chosen([*begins, COMMITTED, older], "q", "s/t") == COMMITTED
    assert chosen(others, "q", "s/t") is None


@pytest.mark.parametrize(
    ("marker", "epoch", "run", "attempt", "expected"),
    [
        (None, 0, "run-1", 0, Doubt.NONE),
        (COMMITTED, 5, "run-1", 0, Doubt.COMMITTED),
        (COMMITTED, 4, "run-2", 3, Doubt.COMMITTED),
        (COMMITTED, 6, "run-1", 0, Doubt.NONE),
        (COMMITTED, 6, "run-1", 1, Doubt.RETRIED),
        (COMMITTED, 6, "run-2", 0, Doubt.RESTARTED),
        (Marker("q", "s/t", BEGIN, "run-1", {}), 0, "run-1", 0, Doubt.NONE),
        (Marker("q", "s/t", BEGIN, "run-1", {}), 0, "run-1", 1, Doubt.RETRIED),
        (Marker("q", "s/t", BEGIN, "run-0", {}), 0, "run-1", 0, Doubt.RESTARTED),
    ],
)
def test_doubt_is_decided_by_run_attempt_and_epoch(
    marker: Marker | None, epoch: int, run: str, attempt: int, expected: Doubt
) -> None:
    assert doubt(marker, epoch=epoch, run=run, attempt=attempt) is expected
