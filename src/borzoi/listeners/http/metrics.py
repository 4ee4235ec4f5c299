"""The metrics at `/metrics`: the eight names of the published servers, and those of borzoi.

Gauges are computed from the state of the server, so they are right from the first scrape after a
start. Series of partitions are bounded: a server may have a million
partitions, and Prometheus should not.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

from borzoi.handlers.dispatch import Dispatcher
from borzoi.listeners.process_metrics import ProcessSources, process_families
from borzoi.metadata.state import Metadata, Stream, Topic
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import BorzoiError
from borzoi.model.namespace import Namespace
from borzoi.model.value import Value
from borzoi.partitions.futures import arrived
from borzoi.partitions.operations import LoadOffset
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.telemetry.exposition import (
    Family,
    Labels,
    Number,
    counter,
    gauge,
    gauges,
    merged,
    openmetrics,
)

PARTITIONS_MAX = 1000
LAGS_MAX = 10_000


async def _alone() -> list[list[Family]]:
    return []


class Sources(ProcessSources):
    """What the numbers of a server are read from, beside its planes."""

    #: The numbers of its other processes.
    others: Callable[[], Awaitable[Sequence[Sequence[Family]]]] = _alone
    #: Calls over HTTP since the start.
    calls: Callable[[], int] = int
    #: More partitions than this have no series of their own.
    partitions_max: int = PARTITIONS_MAX
    #: The limit of (group, partition) pairs with a lag.
    lags_max: int = LAGS_MAX


class _Shown(Value):
    """A partition that has its own series."""

    stream: Stream
    topic: Topic
    partition_id: int
    statistics: PartitionStatistics

    @property
    def labels(self) -> Labels:
        return (
            ("stream", self.stream.name),
            ("topic", self.topic.name),
            ("partition", str(self.partition_id)),
        )

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.stream.id, self.topic.id, self.partition_id)


class Metrics:
    """Collects the numbers of a server when they are scraped."""

    def __init__(self, dispatcher: Dispatcher, sources: Sources) -> None:
        self._dispatcher = dispatcher
        self._services = dispatcher.services
        self.sources = sources

    async def text(self) -> bytes:
        shown, left_out = await self._partitions()
        families = [
            *await self._upstream(),
            *_of_partitions(shown),
            gauge(
                "borzoi_partitions_left_out",
                "partitions without their own series, see http.metrics.max_partitions",
                left_out,
            ),
            *await self._lags(shown),
            *await self._processes(),
        ]
        return openmetrics(families)

    async def _processes(self) -> list[Family]:
        """What the processes of the server do, added up."""
        own = process_families(self._dispatcher, self.sources)
        return merged([own, *await self.sources.others()])

    async def _upstream(self) -> list[Family]:
        """The metrics that dashboards for the published servers use."""
        services, state = self._services, self._services.metadata.state
        totals = await arrived(services.partitions.totals())
        topics = [topic for _, topic in _topics(state)]
        partitions = sum(len(topic.partitions) for topic in topics)
        clients = len(services.sessions)
        if services.neighbours is not None:
            clients += len(await services.neighbours.sessions())
        return [
            counter("http_requests", "total count of http_requests.", self.sources.calls()),
            gauge("streams", "total count of streams.", len(state.streams)),
            gauge("topics", "total count of topics.", len(topics)),
            gauge("partitions", "total count of partitions.", partitions),
            gauge("segments", "total count of segments.", totals.segments_count),
            gauge("messages", "total count of messages.", totals.messages_count),
            gauge("users", "total count of users.", len(state.users)),
            gauge("clients", "total count of clients.", clients),
        ]

    async def _partitions(self) -> tuple[list[_Shown], int]:
        """The partitions that are shown, and how many are not."""
        places = [
            (stream, topic, partition_id)
            for stream, topic in _topics(self._services.metadata.state)
            for partition_id in topic.partitions
        ]
        some = places[: self.sources.partitions_max]
        namespaces = [Namespace(stream.id, topic.id, number) for stream, topic, number in some]
        described = await arrived(self._services.partitions.describe(namespaces))
        shown = [_Shown(*place, one) for place, one in zip(some, described, strict=True)]
        return shown, len(places) - len(some)

    async def _lags(self, shown: Sequence[_Shown]) -> list[Family]:
        """Yield how many messages each group has not committed yet, by partition."""
        values: list[tuple[Labels, Number]] = []
        partitions, now = self._services.partitions, self._services.clock()
        pairs = ((one, group) for one in shown for group in one.topic.groups.in_order())
        for one, group in islice(pairs, self.sources.lags_max):
            load = LoadOffset(ConsumerKind.GROUP, group.id)
            try:
                pair = await arrived(partitions.run(one.namespace, load, now=now))
            except BorzoiError:
                continue  # deleted meanwhile
            lag = lag_of(one.statistics, pair.stored)
            values.append(((*one.labels, ("group", group.name)), lag))
        topics = [topic for _, topic in _topics(self._services.metadata.state)]
        lags = sum(len(topic.partitions) * len(topic.groups) for topic in topics)
        return [
            gauges("borzoi_group_lag", "messages a group has not committed yet", values),
            gauge(
                "borzoi_group_lags_left_out",
                "pairs of group and partition without a lag, see http.metrics.max_group_lags",
                max(0, lags - len(values)),
            ),
        ]


def lag_of(statistics: PartitionStatistics, stored: int | None) -> int:
    """Return how many stored messages follow the stored offset."""
    if not statistics.messages_count:
        return 0
    if stored is None:
        return statistics.messages_count
    return min(max(statistics.current_offset - stored, 0), statistics.messages_count)


def _of_partitions(shown: Sequence[_Shown]) -> Iterator[Family]:
    def family(name: str, meaning: str, field: str) -> Family:
        values = [(one.labels, getattr(one.statistics, field)) for one in shown]
        return gauges(name, meaning, values)

    yield family("borzoi_partition_messages", "messages in a partition", "messages_count")
    yield family("borzoi_partition_size_bytes", "bytes of its messages", "size")
    yield family("borzoi_partition_segments", "segments of a partition", "segments_count")
    yield family("borzoi_partition_current_offset", "offset of its last message", "current_offset")


def _topics(state: Metadata) -> Iterator[tuple[Stream, Topic]]:
    for stream in state.streams.in_order():
        for topic in stream.topics.in_order():
            yield stream, topic
