"""Numbers out of what Spark reports."""

import io
import json
from typing import Any

from prometheus_client import generate_latest
from rich.console import Console

from borzoi.spark.offsets import PartitionKey, Position, to_json
from borzoi.spark.progress import (
    JsonLines,
    PipelineMetrics,
    Terminal,
    end_offsets,
    report_of,
    start_offsets,
    table_of,
)

KEY = PartitionKey("a/b", 0)


def position(offset: int) -> str:
    return json.dumps(to_json({KEY: Position(offset, 1)}))


def progress(end: int, latest: int, start: int | None = 10) -> dict[str, Any]:
    return {
        "batchId": 3,
        "durationMs": {"triggerExecution": 250, "addBatch": 200},
        "stateOperators": [{"numRowsTotal": 7}],
        "sources": [
            {
                "numInputRows": end - (start or 0),
                "processedRowsPerSecond": 100.0,
                "startOffset": None
                if start is None
                else json.dumps(to_json({KEY: Position(start, 1)})),
                "endOffset": to_json({KEY: Position(end, 1, 5_000_000)}),
                "latestOffset": position(latest),
            },
            {"startOffset": "not json", "endOffset": "5", "latestOffset": None},
        ],
        "observedMetrics": {"borzoi_bytes_orders": {"bytes": 4096}},
    }


def test_lag_and_share_follow_from_the_offsets() -> None:
    first = start_offsets(progress(60, 110))
    assert first == {KEY: 10}
    assert start_offsets(progress(60, 110, None)) == {KEY: 0}
    report = report_of("lake", progress(60, 110), first, now=7_000_000)
    assert (report.done, report.total, report.percent) == (50, 100, 50.0)
    assert report.lag == {"a/b[0]": 50}
    assert (report.rows, report.rows_per_second) == (50, 100.0)
    assert report.lag_seconds == 2.0
    assert report.seconds_left == 0.5
    assert (report.state_rows, report.batch_ms, report.bytes) == (7, 250, 4096)
    done = report_of("lake", progress(110, 110), first, now=7_000_000)
    assert (done.percent, done.lag_seconds) == (100.0, 0.0)
    assert end_offsets(progress(60, 110)) == [to_json({KEY: Position(60, 1, 5_000_000)})]


def test_ranges_count_as_the_messages_in_them() -> None:
    """On the bulk plane Spark counts ranges; the observed numbers are those of messages."""
    document = progress(60, 110) | {
        "observedMetrics": {"borzoi_bytes_raw": {"bytes": 4096, "messages": 5000}}
    }
    report = report_of("copy", document, {KEY: 10}, now=0)
    assert (report.rows, report.rows_per_second, report.bytes) == (5000, 20_000.0, 4096)
    unseen = document | {"observedMetrics": {"borzoi_bytes_raw": {"bytes": None, "messages": None}}}
    assert report_of("copy", unseen, {KEY: 10}, now=0).rows == 50


def test_lines_are_json() -> None:
    out = io.StringIO()
    shown = JsonLines(out)
    shown.show(report_of("lake", progress(60, 110), {KEY: 10}, now=0))
    shown.close()
    assert json.loads(out.getvalue())["query"] == "lake"


def test_a_terminal_shows_one_line_for_each_query() -> None:
    out = io.StringIO()
    console = Console(file=out, width=160)
    terminal = Terminal(Console(file=io.StringIO()))
    report = report_of("lake", progress(60, 110), {KEY: 10}, now=0)
    terminal.show(report)
    terminal.close()
    console.print(table_of([report]))
    assert "a/b[0] 50" in out.getvalue()
    assert "50 %" in out.getvalue()


def test_prometheus_has_the_names_of_the_documentation() -> None:
    metrics = PipelineMetrics("orders")
    metrics.show(report_of("dead-letters", progress(60, 110), {KEY: 10}, now=0))
    metrics.close()
    text = generate_latest(metrics.registry).decode()
    for name in (
        "borzoi_pipeline_rows_total",
        "borzoi_pipeline_bytes_total",
        "borzoi_pipeline_lag_messages",
        "borzoi_pipeline_lag_seconds",
        "borzoi_pipeline_batch_seconds",
        "borzoi_pipeline_state_rows",
        "borzoi_pipeline_dead_letters_total",
        "borzoi_pipeline_commits_total",
        "borzoi_pipeline_reconciled_total",
    ):
        assert f"\n{name}{{" in text
