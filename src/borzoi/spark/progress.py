"""The progress of a query, computed from Spark's report after each batch, and its display.

Spark reports start, end and latest offsets of each source as JSON; the lag is what lies between the
last two. On a terminal each query has a line that is redrawn; elsewhere each batch is a line of
JSON. `PipelineMetrics` keeps the same numbers for Prometheus.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from rich.console import Console
from rich.live import Live
from rich.table import Table

from borzoi.model.units import format_bytes_roughly
from borzoi.spark.offsets import PartitionKey, from_json

#: Prefix of the observation with the payload bytes of a source.
BYTES_METRIC = "borzoi_bytes"


@dataclass(frozen=True, slots=True)
class Report:
    """One batch of one query."""

    query: str
    batch: int
    rows: int
    rows_per_second: float
    #: Messages between the first and the last planned offset, and how many are done.
    done: int
    total: int
    lag: Mapping[str, int]
    lag_seconds: float | None
    batch_ms: int
    phases_ms: Mapping[str, int]
    state_rows: int
    bytes: int = 0
    #: Rows that an earlier attempt had sent to the topic, found there by their ids.
    reconciled: int = 0

    @property
    def percent(self) -> float:
        return 100.0 if self.total == 0 else 100.0 * self.done / self.total

    @property
    def seconds_left(self) -> float | None:
        left = self.total - self.done
        return left / self.rows_per_second if self.rows_per_second > 0 else None


def report_of(
    name: str, progress: Mapping[str, Any], first: Mapping[PartitionKey, int], now: int
) -> Report:
    """The report of one batch; `first` is where the query started reading, `now` in µs."""
    lag: dict[str, int] = {}
    done = total = 0
    newest = 0
    for source in progress.get("sources", []):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        for key, position in end.items():
            behind = max(0, latest[key].offset - position.offset) if key in latest else 0
            lag[f"{key.topic}[{key.partition}]"] = behind
            begin = min(first.get(key, 0), position.offset)
            done += position.offset - begin
            total += position.offset - begin + behind
            newest = max(newest, position.mark)
    durations = {name: int(ms) for name, ms in progress.get("durationMs", {}).items()}
    observed = progress.get("observedMetrics") or {}
    messages, batch_ms = _messages(observed), durations.get("triggerExecution", 0)
    rate = messages * 1000 / batch_ms if messages and batch_ms else None
    return Report(
        query=name,
        batch=int(progress["batchId"]),
        # Sums over the sources: over Spark Connect the totals are missing.
        rows=messages or int(_sum(progress, "numInputRows")),
        rows_per_second=rate or _sum(progress, "processedRowsPerSecond"),
        done=done,
        total=total,
        lag=lag,
        lag_seconds=max(0.0, (now - newest) / 1_000_000) if newest and sum(lag.values()) else 0.0,
        batch_ms=batch_ms,
        phases_ms=durations,
        state_rows=sum(int(s.get("numRowsTotal", 0)) for s in progress.get("stateOperators", [])),
        bytes=_bytes(observed),
    )


def _sum(progress: Mapping[str, Any], name: str) -> float:
    return sum(float(source.get(name) or 0) for source in progress.get("sources", []))


def start_offsets(progress: Mapping[str, Any]) -> dict[PartitionKey, int]:
    """Return where the first batch of a query began."""
    found = {}
    for source in progress.get("sources", []):
        begin = _offsets(source.get("startOffset"))
        for key in _offsets(source.get("endOffset")):
            found[key] = begin[key].offset if key in begin else 0
    return found


def end_offsets(progress: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the end offsets of a batch, one document per source."""
    found = [_document(source.get("endOffset")) for source in progress.get("sources", [])]
    return [document for document in found if document]


def _offsets(value: Any) -> dict[PartitionKey, Any]:
    document = _document(value)
    return from_json(document) if document else {}


def _document(value: Any) -> dict[str, Any] | None:
    """Parse offsets, which arrive as a JSON string or already parsed; other sources differ."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    return value if isinstance(value, dict) and "v" in value else None


def _bytes(observed: Mapping[str, Any]) -> int:
    return sum(int(row.get("bytes") or 0) for row in _observed(observed))


def _messages(observed: Mapping[str, Any]) -> int:
    """Messages of the ranges of a batch, on the bulk plane, where Spark counts the ranges."""
    return sum(int(row.get("messages") or 0) for row in _observed(observed))


def _observed(observed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = [row for name, row in observed.items() if name.startswith(BYTES_METRIC)]
    return [row for row in rows if isinstance(row, Mapping)]


# ---- showing ------------------------------------------------------------------------------------


class JsonLines:
    """One line of JSON for each batch, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, report: Report) -> None:
        document = asdict(report) | {"percent": round(report.percent, 2)}
        self._out.write(json.dumps(document) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing to clean up."""


class Terminal:
    """One line for each query, redrawn after each batch."""

    def __init__(self, console: Console) -> None:
        self._reports: dict[str, Report] = {}
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._live.start()

    def show(self, report: Report) -> None:
        self._reports[report.query] = report
        self._live.update(table_of(self._reports.values()))

    def close(self) -> None:
        self._live.stop()


def table_of(reports: Any) -> Table:
    table = Table("query", "batch", "done", "", "rows/s", "lag", "left", "batch time", box=None)
    for each in reports:
        filled = int(each.percent / 5)
        left = each.seconds_left
        size = f" {format_bytes_roughly(each.bytes)}" if each.bytes else ""
        behind = ", ".join(f"{place} {count:,}" for place, count in each.lag.items() if count)
        table.add_row(
            each.query,
            str(each.batch),
            f"{each.done:,}{size}",
            f"{'━' * filled}{'─' * (20 - filled)} {each.percent:.0f} %",
            f"{each.rows_per_second:,.0f}",
            behind or "none",
            "–" if left is None else f"{left:.0f} s",
            f"{each.batch_ms} ms",
        )
    return table


# ---- Prometheus ---------------------------------------------------------------------------------


class PipelineMetrics:
    """The numbers of all queries of a pipeline, under the names that docs/spark.md lists."""

    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        labels = ("pipeline", "query")
        self._pipeline = pipeline
        self._rows = Counter("borzoi_pipeline_rows", "messages read", labels, **own)
        self._bytes = Counter("borzoi_pipeline_bytes", "bytes of payloads read", labels, **own)
        self._lag = Gauge(
            "borzoi_pipeline_lag_messages", "messages not read yet", (*labels, "partition"), **own
        )
        self._lag_seconds = Gauge(
            "borzoi_pipeline_lag_seconds", "age of the last message read", labels, **own
        )
        self._phases = Gauge(
            "borzoi_pipeline_batch_seconds", "time of the last batch", (*labels, "phase"), **own
        )
        self._state = Gauge("borzoi_pipeline_state_rows", "rows of state", labels, **own)
        self._dead = Counter("borzoi_pipeline_dead_letters", "records refused", labels, **own)
        self._commits = Counter("borzoi_pipeline_commits", "batches committed", labels, **own)
        self._reconciled = Counter(
            "borzoi_pipeline_reconciled", "rows that were there before a retry", labels, **own
        )

    def serve(self, port: int) -> None:
        start_http_server(port, "127.0.0.1", self.registry)

    def show(self, report: Report) -> None:
        labels = (self._pipeline, report.query)
        self._rows.labels(*labels).inc(report.rows)
        self._bytes.labels(*labels).inc(report.bytes)
        self._commits.labels(*labels).inc()
        self._reconciled.labels(*labels).inc(report.reconciled)
        if report.query.endswith("dead-letters"):
            self._dead.labels(*labels).inc(report.rows)
        self._lag_seconds.labels(*labels).set(report.lag_seconds or 0.0)
        self._state.labels(*labels).set(report.state_rows)
        for place, count in report.lag.items():
            self._lag.labels(*labels, place).set(count)
        for phase, milliseconds in report.phases_ms.items():
            self._phases.labels(*labels, phase).set(milliseconds / 1000)

    def close(self) -> None:
        """Nothing to do: the exposition ends with the process."""
