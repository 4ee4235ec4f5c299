"""A topic as a table: Arrow, Polars, pandas or DuckDB, whichever is installed.

Messages go from the poll answer into columns without an object per message. Columns and their types
are those of `borzoi.records.arrow`, which is imported on demand: pyarrow is an extra.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Final, NamedTuple

from borzoi.client._sync.client import Client
from borzoi.client.naming import TopicName, microseconds_of, topic_of
from borzoi.client.options import DEFAULT_SERVER, Options
from borzoi.model.errors import FeatureUnavailable, InvalidFormat, TopicNotFound
from borzoi.model.limits import U64_MAX
from borzoi.records.columnar import Run, run_of

#: Messages that a poll asks for at most, and at first: how large they are is not known then.
COUNT_MAX: Final = 10_000
COUNT_FIRST: Final = 1000

#: About as many bytes as a poll is to bring.
POLL_BYTES: Final = 2 << 20


def read(
    topic: TopicName,
    *,
    start: datetime | int | None = None,
    end: datetime | int | None = None,
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    server: str | Options = DEFAULT_SERVER,
) -> "TopicTable":
    """Return the present messages of a topic as a table.

    >>> borzoi.read("orders/events", start=datetime(2026, 1, 1)).to_polars()  # doctest: +SKIP

    `start` and `end` are times (when the server stored the message) or offsets; `end` itself is
    not included. Nothing is read until one of the methods of the table is called.
    """
    for name, bound in (("start", start), ("end", end)):
        if isinstance(bound, int) and not 0 <= bound <= U64_MAX:
            raise InvalidFormat(f"{name} is {bound}; an offset within 0..{U64_MAX} is allowed")
    return TopicTable(topic, start, end, partitions, columns, server)


class TopicTable:
    """A part of a topic, read on demand and again on each call."""

    def __init__(
        self,
        topic: TopicName,
        start: datetime | int | None,
        end: datetime | int | None,
        partitions: Sequence[int] | None,
        columns: Sequence[str] | None,
        server: str | Options,
    ) -> None:
        self._topic = topic
        self._range = TopicRange(start, end, partitions)
        self._columns = columns
        self._server = server

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        pyarrow = _installed("pyarrow", "borzoi[arrow]")
        schema, batches = self._batches()
        return pyarrow.Table.from_batches(batches, schema)

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return _installed("polars", "polars").from_arrow(self.to_arrow())

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        _installed("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return a DuckDB relation, on this connection or on the default one."""
        duckdb = _installed("duckdb", "duckdb")
        return duckdb.from_arrow(self.to_arrow(), connection=connection)

    def _batches(self) -> tuple[Any, list[Any]]:
        arrow = import_module("borzoi.records.arrow")
        columns = arrow.DEFAULT_COLUMNS if self._columns is None else tuple(self._columns)
        unknown = [name for name in columns if name not in arrow.COLUMN_TYPES]
        if unknown:
            raise InvalidFormat(
                f"there is no column {unknown[0]!r}; there are {', '.join(arrow.COLUMN_TYPES)}"
            )
        stream, name = map(str, topic_of(self._topic))
        batches = []
        with Client(self._server) as client:
            for partition, run in runs(client, self._topic, self._range):
                constants = {"stream": stream, "topic": name, "partition": partition}
                batches.append(arrow.record_batch(run, columns, constants=constants))
        return arrow.schema_of(columns), batches

    def __repr__(self) -> str:
        stream, name = topic_of(self._topic)
        start, end = self._range.start or "the first", self._range.end or "the last"
        return f"<{stream}/{name} from {start} to {end}>"


class TopicRange(NamedTuple):
    """A part of each partition of a topic: from a time or an offset up to another one, which is
    not included. None is the first message, or the last one there is now."""

    start: datetime | int | None = None
    end: datetime | int | None = None
    #: None for all of them.
    partitions: Sequence[int] | None = None


def runs(client: Client, topic: TopicName, among: TopicRange) -> Iterator[tuple[int, Run]]:
    """The messages of a topic that are there now, partition after partition, as they are polled:
    columns over the bytes that were received, and the partition they are from."""
    details = client.get_topic(topic)
    if details is None:
        raise TopicNotFound(f"there is no topic {topic!r}")
    for partition in details.partitions:
        wanted = among.partitions is None or partition.id in among.partitions
        if wanted and partition.messages_count:
            for run in _runs(client, topic, among, partition.id, partition.current_offset):
                yield partition.id, run


def _runs(
    client: Client, topic: TopicName, among: TopicRange, partition: int, last: int
) -> Iterator[Run]:
    start: Any = 0 if among.start is None else among.start
    count = COUNT_FIRST
    while isinstance(start, datetime) or start <= last:
        polled = client.poll_raw(topic, partition=partition, start=start, count=count)
        run = run_of(polled.messages)
        if not run.count:
            return
        start = int(run.headers["offset"][-1]) + 1
        kept = _until_end(run, last, among.end)
        if kept.count:
            yield kept
        if kept.count < run.count:
            return
        count = min(max(POLL_BYTES * run.count // len(run.buffer), 1), COUNT_MAX)


def _until_end(run: Run, last: int, end: datetime | int | None) -> Run:
    """The messages before the end, which are the first ones: both columns ascend."""
    offsets = run.headers["offset"]
    count = int(offsets.searchsorted(last, "right"))
    if isinstance(end, datetime):
        moment = microseconds_of(end)
        count = min(count, int(run.headers["timestamp"].searchsorted(moment, "left")))
    elif end is not None:
        count = min(count, int(offsets.searchsorted(end, "left")))
    return run if count == run.count else run.part(0, count)


def _installed(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as fault:
        raise FeatureUnavailable(
            f"this needs {module}, which is not installed: pip install {package!r}"
        ) from fault
