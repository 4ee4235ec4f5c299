"""A topic copied on the bulk plane: stored messages are sent again as they are.

A stored message is a message of a request already; the server writes its own checksum, offset and
timestamp into it. So a copy reads runs of messages, writes ids by lineage into their headers, and
sends them: they pass neither through the JVM nor through columns. With `idempotence=column` the
ids stay too, and not even the bytes are copied.
"""

import pickle
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from borzoi.records.arrow import Encoded
from borzoi.records.columnar import Run
from borzoi.records.columns import gathered_column, scatter_column
from borzoi.records.header import ID_AT
from borzoi.spark.broker import Broker
from borzoi.spark.ids import Lineage, topic_hashes
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import SinkOptions, SourceOptions
from borzoi.spark.plan import Split
from borzoi.spark.reading import read_runs_of
from borzoi.spark.reconcile import Doubt
from borzoi.spark.targets import Attempt, Outgoing, Written

ID_DTYPE: Final = np.dtype("V16")


class Copier:
    """Sends the messages of ranges to the partition they came from, modulo the target's number."""

    def __init__(
        self,
        broker: Broker,
        options: SinkOptions,
        way: str,
        attempt: Attempt | None,
        source: SourceOptions,
    ) -> None:
        assert options.topic is not None
        self._topic = options.topic
        self._way = way
        self._attempt = attempt
        self._source = source
        self._outgoing = Outgoing(broker, options, way, attempt)

    def write(self, ranges: pa.RecordBatch) -> None:
        for pickled in ranges.column("split").to_pylist():
            self._copy(pickle.loads(pickled))  # noqa: S301 - made by our own source

    def result(self) -> Written:
        return self._outgoing.result()

    def _copy(self, split: Split) -> None:
        target = self._outgoing.target(self._topic)
        if target.doubt is Doubt.COMMITTED:
            return
        partition = split.key.partition % target.count
        for run in read_runs_of(split, self._source):
            messages = self._messages(split.key, run)
            if target.present:
                messages = self._missing(messages, run, target.present)
            self._outgoing.send(self._topic, partition, messages)

    def _messages(self, key: PartitionKey, run: Run) -> Encoded:
        if self._way == "column":
            return Encoded(run.buffer, run.ends)
        if self._way == "none" or self._attempt is None:
            return with_ids(run, np.zeros(run.count, ID_DTYPE))
        query = self._attempt.query
        topics = topic_hashes(query, pa.array([key.topic]), 1).repeat(run.count)
        partitions = np.full(run.count, key.partition, np.int64)
        offsets = run.headers["offset"].view(np.int64)
        return with_ids(run, Lineage(query).ids(topics, partitions, offsets))

    def _missing(self, messages: Encoded, run: Run, present: frozenset[bytes]) -> Encoded:
        """The messages without those whose id is there; only after a failure is this asked for."""
        ids = gathered_column(messages.messages, run.starts, ID_AT, ID_DTYPE)
        rows = [row for row, value in enumerate(ids.tolist()) if value not in present]
        self._outgoing.skip(run.count - len(rows))
        if len(rows) == run.count:
            return messages
        starts, ends = run.starts[rows], run.ends[rows]
        pieces = [
            messages.messages[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        return Encoded(memoryview(b"".join(pieces)), np.cumsum(ends - starts))


def with_ids(run: Run, ids: NDArray[Any]) -> Encoded:
    """A copy of the messages that has these ids."""
    messages = memoryview(bytearray(run.buffer))
    scatter_column(messages, run.starts, ID_AT, ID_DTYPE, ids)
    return Encoded(messages, run.ends)
