"""Starts and watches the queries of a pipeline; the exit code says how they ended.

====  ================================================================
code  meaning
====  ================================================================
0     everything was read (`available-now`), or the queries were stopped
1     a query failed for another reason than those below
2     the file cannot be run
3     messages are lost
4     a sink refused rows
130   interrupted: the running batches were finished first
====  ================================================================
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from borzoi.model.errors import BorzoiError
from borzoi.spark.broker import Broker
from borzoi.spark.offsets import PartitionKey, from_json
from borzoi.spark.options import source_options
from borzoi.spark.pipelines.compiling import Flow, compile_pipeline
from borzoi.spark.pipelines.model import Pipeline
from borzoi.spark.progress import Report, end_offsets, report_of, start_offsets
from borzoi.spark.targets import last_marker

OK, FAILED, BAD_FILE, DATA_LOSS, SINK_REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 130

#: Pause between checks of the queries.
LOOK_SECONDS: Final = 0.2
#: Exception names in the traceback of a query that failed for a known reason.
LOSSES: Final = ("DataLoss",)
REFUSALS: Final = (
    "sink.py",
    "TopicNotFound",
    "Unauthorized",
    "Disconnected",
    "CannotConnect",
    "TopicFull",
)


class Display(Protocol):
    def show(self, report: Report) -> None: ...
    def close(self) -> None: ...


class Interruption:
    """Ctrl-C: the first lets running batches finish, the second stops them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def install(self) -> Callable[[], None]:
        """Install signal handlers; the result restores the old ones. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return lambda: None
        before = {each: signal.signal(each, self) for each in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for each, handler in before.items():
                signal.signal(each, handler)

        return restore


def run_pipeline(
    spark: SparkSession, pipeline: Pipeline, displays: Sequence[Display] = ()
) -> tuple[int, str]:
    """Run all queries to their end; return the exit code and why they ended."""
    interruption = Interruption()
    restore = interruption.install()
    watches: list[Watch] = []
    broker = broker_of(pipeline)
    try:
        flows = compile_pipeline(spark, pipeline)
        watches = [Watch(flow, flow.writer.start(), broker) for flow in flows]
        return _watch(watches, displays, interruption)
    finally:
        for watch in watches:
            watch.look(displays)
            watch.query.stop()
        _store_ends(pipeline, watches, broker)
        broker.close()
        for display in displays:
            display.close()
        restore()


def broker_of(pipeline: Pipeline) -> Broker:
    """A connection to the server of the pipeline, made when it is first needed."""
    source = next(iter(pipeline.sources.values()))
    return Broker(source_options(dict(source.options) | dict(pipeline.server)).connection)


class Watch:
    """A running query and what it has reported."""

    def __init__(self, flow: Flow, query: StreamingQuery, broker: Broker) -> None:
        self.flow = flow
        self.query = query
        self._broker = broker
        self._seen = -1
        self._first: dict[PartitionKey, int] | None = None
        self.last: dict[str, Any] | None = None

    def look(self, displays: Sequence[Display]) -> None:
        """Show the batches that completed since the last call."""
        for progress in self.query.recentProgress:
            document = _plain(progress)
            number = int(document["batchId"])
            if number <= self._seen:
                continue
            self._seen, self.last = number, document
            if self._first is None:
                self._first = start_offsets(document)
            now = time.time_ns() // 1000
            report = report_of(self.flow.name, document, self._first, now)
            if displays:
                report = replace(report, reconciled=self._reconciled(number))
            for display in displays:
                display.show(report)

    def _reconciled(self, batch: int) -> int:
        """Rows of a batch that were in its topic already; the driver's marker says how many."""
        if self.flow.topic is None:
            return 0
        try:
            marker = last_marker(self._broker, str(self.query.id), self.flow.topic)
        except BorzoiError:
            # A number for people; the query itself is not concerned.
            return 0
        return marker.skipped if marker is not None and marker.epoch == batch else 0

    @property
    def is_between_batches(self) -> bool:
        return not self.query.isActive or not self.query.status["isTriggerActive"]


def _plain(progress: Any) -> dict[str, Any]:
    """The report as plain values; over Spark Connect the mapping itself is empty."""
    document: dict[str, Any] = json.loads(progress.json)
    return document


def _watch(
    watches: Sequence[Watch], displays: Sequence[Display], interruption: Interruption
) -> tuple[int, str]:
    while True:
        for watch in watches:
            watch.look(displays)
            failure = watch.query.exception()
            if failure is not None:
                code, sentence = outcome_of(str(failure))
                return code, f"{watch.flow.name}: {sentence}"
        if interruption.count >= 2:
            return INTERRUPTED, "interrupted: the running batches will run again"
        if interruption.count and all(watch.is_between_batches for watch in watches):
            return INTERRUPTED, "interrupted between two batches"
        if not any(watch.query.isActive for watch in watches):
            return OK, "finished"
        time.sleep(LOOK_SECONDS)


def outcome_of(text: str) -> tuple[int, str]:
    """Return exit code and message for a query that failed with this text."""
    sentence = sentence_of(text)
    if any(f"{name}:" in text for name in LOSSES):
        return DATA_LOSS, sentence
    if any(name in text for name in REFUSALS):
        return SINK_REFUSED, sentence
    return FAILED, sentence


def sentence_of(text: str) -> str:
    """Return the line with the cause from the tracebacks that Spark wraps around it."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith("borzoi.") and ": " in line]
    if own:
        return own[0].partition(": ")[2]
    told = [line for line in lines if line and not line.startswith(("at ", "File ", "Traceback"))]
    return told[0] if told else "the query failed without a reason"


def _store_ends(pipeline: Pipeline, watches: Sequence[Watch], broker: Broker) -> None:
    """Store where the queries ended: Spark tells a source about all batches but the last."""
    ends: dict[PartitionKey, int] = {}
    for watch in watches:
        for document in end_offsets(watch.last or {}):
            for key, position in from_json(document).items():
                if position.mark:
                    ends[key] = min(position.offset, ends.get(key, position.offset))
    try:
        for key, offset in ends.items():
            broker.store_offset(f"spark-{pipeline.name}", key, offset - 1)
    except BorzoiError:
        # The checkpoint is authoritative; this is for lag displays and retention.
        pass
