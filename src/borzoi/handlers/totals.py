"""Sums over the partitions of topics, for listings."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from borzoi.handlers.call import Call
from borzoi.metadata.state import Stream, Topic
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import then
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.shard.partition_table import Totals

Listing = TypeVar("Listing")


def partitions_of_topic(stream_id: int, topic: Topic) -> list[Namespace]:
    return [Namespace(stream_id, topic.id, partition_id) for partition_id in topic.partitions]


def partitions_of_stream(stream: Stream) -> list[Namespace]:
    return [
        namespace
        for topic in stream.topics.values()
        for namespace in partitions_of_topic(stream.id, topic)
    ]


def with_totals(
    groups: Sequence[Sequence[Namespace]], make: Callable[[list[Totals]], Listing], call: Call
) -> Listing | Coroutine[Any, Any, Listing]:
    """Return `make` of the totals of each group of partitions. All are queried concurrently."""
    sizes = [len(group) for group in groups]
    described = call.partitions.describe([namespace for group in groups for namespace in group])
    return then(described, lambda found: make(_sums(found, sizes)))


def _sums(found: Sequence[PartitionStatistics], sizes: Sequence[int]) -> list[Totals]:
    sums, start = [], 0
    for size in sizes:
        sums.append(Totals.of(found[start : start + size]))
        start += size
    return sums
