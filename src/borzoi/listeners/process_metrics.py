"""The metrics of one process of a server; `/metrics` sums those of all processes."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from borzoi.handlers.dispatch import Dispatcher
from borzoi.listeners.admission import Admission
from borzoi.memory.pool import MemoryPool
from borzoi.telemetry.durations import Durations, Ongoing
from borzoi.telemetry.exposition import Family, Labels, counter, gauge, gauges, histogram


class ProcessSources(msgspec.Struct, kw_only=True):
    """Where the metrics of a process come from, besides its planes."""

    pool: MemoryPool
    admission: Admission
    #: How long syncs took, and how late the event loop was.
    syncs: Ongoing
    loop_lag: Durations
    #: Open connections by transport.
    connections: Callable[[], Mapping[str, int]] = dict
    #: Further metrics of the process.
    more: Callable[[], Iterable[Family]] = tuple
    #: The number of the process in the server.
    shard: int = 0


def process_families(dispatcher: Dispatcher, sources: ProcessSources) -> list[Family]:
    """Return the metrics of this process."""
    shard: Labels = (("shard", str(sources.shard)),)
    return [
        *_requests(dispatcher, sources),
        *_pool(sources.pool),
        histogram("borzoi_sync_seconds", "time of a sync", [(shard, sources.syncs)]),
        histogram(
            "borzoi_loop_lag_seconds", "how late the event loop was", [(shard, sources.loop_lag)]
        ),
        *sources.more(),
    ]


def _requests(dispatcher: Dispatcher, sources: ProcessSources) -> Iterator[Family]:
    yield histogram(
        "borzoi_request_seconds",
        "time from a request to its answer",
        [
            ((("command", command), ("transport", transport)), durations)
            for command, transport, durations in dispatcher.times
        ],
    )
    depths = {**dispatcher.pending()._asdict(), "syncs": sources.syncs.pending}
    yield gauges(
        "borzoi_queue_depth",
        "pending requests, by what they wait for, and syncs in flight",
        [((("queue", queue),), depth) for queue, depth in depths.items()],
    )
    yield gauges(
        "borzoi_connections",
        "open connections",
        [((("transport", name),), count) for name, count in sources.connections().items()],
    )
    refused = sources.admission.refused
    yield counter("borzoi_connections_refused", "connections over the limit", refused)


def _pool(pool: MemoryPool) -> Iterator[Family]:
    counters = pool.counters()
    yield gauge("borzoi_pool_limit_bytes", "bytes the pool may lend", counters.limit_bytes)
    yield gauge("borzoi_pool_in_use_bytes", "bytes the pool has lent", counters.in_use_bytes)
    yield gauge("borzoi_pool_retained_bytes", "what it keeps", counters.retained_bytes)
    yield counter("borzoi_pool_allocations", "buffers made", counters.allocations)
    yield counter("borzoi_pool_reuses", "buffers lent again", counters.reuses)
    external = counters.external_allocations
    yield counter("borzoi_pool_external_allocations", "buffers outside the pool", external)
