"""Topics that a task sends to: what must be looked at first, what is sent, what is marked.

The row plane (`sink`) and the bulk plane (`copying`) make messages in different ways and send them
in one: an `Outgoing` opens each topic once, finds out whether an earlier attempt may have sent
already, and counts.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import Disconnected, TopicNotFound
from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import Encoded, encode, requests
from borzoi.records.columnar import run_of
from borzoi.records.message import decode_messages
from borzoi.spark.broker import Broker
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import SinkOptions
from borzoi.spark.pacing import SendRate
from borzoi.spark.reconcile import (
    BEGIN,
    Doubt,
    Marker,
    chosen,
    control_topic,
    doubt,
    marker_of,
)

SCAN_COUNT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which try of which task this is."""

    query: str
    run: str
    epoch: int
    task: int
    number: int


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    attempt: Attempt | None
    topics: tuple[str, ...]
    rows: int
    skipped: int
    was_committed: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A topic as one task sees it; `present` are ids that are already there."""

    count: int
    doubt: Doubt
    present: frozenset[bytes] = frozenset()


def current_attempt() -> Attempt:
    """Which try this is, from what Spark tells its tasks."""
    context = TaskContext.get()
    assert context is not None, "only tasks write"
    query = context.getLocalProperty("sql.streaming.queryId")
    epoch = context.getLocalProperty("streaming.sql.batchId")
    run = context.getLocalProperty("spark.jobGroup.id")
    assert query
    assert epoch is not None
    return Attempt(query, run or "", int(epoch), context.partitionId(), context.attemptNumber())


class Outgoing:
    """What one task sends; per topic it decides once whether to look first."""

    def __init__(
        self, broker: Broker, options: SinkOptions, way: str, attempt: Attempt | None
    ) -> None:
        self._broker = broker
        self._options = options
        self._way = way
        self._attempt = attempt
        self._parent = os.getppid()
        self._targets: dict[str, Target] = {}
        self._sent = 0
        self._skipped = 0
        rate = options.messages_per_second
        self._rate = None if rate is None else SendRate(rate)

    def target(self, topic: str) -> Target:
        """The topic, opened when it is first needed."""
        if topic not in self._targets:
            self._targets[topic] = self._open(topic)
        return self._targets[topic]

    def skip(self, count: int) -> None:
        """So many messages are there already."""
        self._skipped += count

    def send(self, topic: str, partition: int, encoded: Encoded) -> None:
        """Send messages in requests of the size, and at the rate, that the options say."""
        count_max = self._options.batch_messages
        if self._rate is not None:
            count_max = min(count_max, self._rate.request_max)
        for request in requests(encoded, bytes_max=self._options.batch_bytes, count_max=count_max):
            if self._rate is not None:
                self._rate.wait_for(request.count)
            if os.getppid() != self._parent:
                # Spark died: what an orphan still sends would race with the next run.
                raise Disconnected("the Spark worker lost its parent")
            self._broker.send(topic, Partitioning.partition(partition), request)
        self._sent += len(encoded.ends)

    def result(self) -> Written:
        was_committed = bool(self._targets) and all(
            target.doubt is Doubt.COMMITTED for target in self._targets.values()
        )
        topics = tuple(self._targets)
        return Written(self._attempt, topics, self._sent, self._skipped, was_committed)

    def _open(self, topic: str) -> Target:
        if self._options.create_partitions is not None:
            self._broker.ensure_topic(topic, self._options.create_partitions)
        details = self._broker.topic(topic)
        if details is None:
            raise TopicNotFound(f"there is no topic {topic}; createPartitions=N makes it")
        count = len(details.partitions)
        attempt = self._attempt
        if attempt is None or self._way == "none" or not attempt.run:
            return Target(count, Doubt.NONE)
        marker = last_marker(self._broker, attempt.query, topic)
        found = doubt(marker, epoch=attempt.epoch, run=attempt.run, attempt=attempt.number)
        if marker is None:
            ends = ends_of(self._broker, topic)
            begin = Marker(attempt.query, topic, BEGIN, attempt.run, ends)
            write_marker(self._broker, begin)
            marker = last_marker(self._broker, attempt.query, topic) or begin
        if found is Doubt.RESTARTED:
            time.sleep(self._options.orphan_grace / 1_000_000)
        if found in (Doubt.RESTARTED, Doubt.RETRIED):
            return Target(count, found, present_ids(self._broker, topic, marker.ends))
        return Target(count, found)


# ---- markers ------------------------------------------------------------------------------------


def ends_of(broker: Broker, topic: str) -> dict[int, int]:
    """The next offset of every partition."""
    return {key.partition: extent.latest for key, extent in broker.extents([topic]).items()}


def write_marker(broker: Broker, marker: Marker) -> None:
    control = control_topic(marker.topic)
    broker.ensure_topic(control, 1)
    encoded = encode(pa.array([marker.to_bytes()]))
    for request in requests(encoded, bytes_max=1 << 20, count_max=1):
        broker.send(control, Partitioning.partition(0), request)


def last_marker(broker: Broker, query: str, topic: str) -> Marker | None:
    """The marker that counts; the newest page of the control topic usually has it."""
    control = control_topic(topic)
    if broker.topic(control) is None:
        return None
    key = PartitionKey(control, 0)
    newest = _markers(broker.poll(key, PollingStrategy.last(), 100))
    found = chosen(newest, query, topic)
    if found is not None and found.epoch != BEGIN:
        return found
    everything: list[Marker] = []
    extent = broker.extents([control]).get(key)
    start = extent.earliest if extent else 0
    while run := decode_messages(broker.poll(key, PollingStrategy.offset(start), SCAN_COUNT)):
        everything += [each for message in run if (each := marker_of(message.payload))]
        start = run[-1].offset + 1
    return chosen(everything, query, topic)


def _markers(polled: memoryview | bytes) -> list[Marker]:
    found = [marker_of(message.payload) for message in decode_messages(polled)]
    return [each for each in found if each is not None]


def present_ids(broker: Broker, topic: str, ends: Mapping[int, int]) -> frozenset[bytes]:
    """Ids of all messages behind these ends."""
    found: set[bytes] = set()
    for key, extent in broker.extents([topic]).items():
        start = max(extent.earliest, ends.get(key.partition, 0))
        while start < extent.latest:
            run = run_of(broker.poll(key, PollingStrategy.offset(start), SCAN_COUNT))
            if run.count == 0:
                break
            found.update(run.headers["id"].tolist())
            start = int(run.headers["offset"][-1]) + 1
    return frozenset(found)
