"""Metrics of the archiver and its object store. Pure."""

from collections.abc import Iterator

from borzoi.archive.archiver import Counters
from borzoi.objectstore.metering import Meters
from borzoi.telemetry.exposition import Family, counter, counters, gauge, gauges, histogram


def archive_families(archived: Counters, meters: Meters) -> Iterator[Family]:
    yield counters(
        "borzoi_archive_segments",
        "archived segments, and failed attempts",
        [
            ((("outcome", "archived"),), archived.segments_archived),
            ((("outcome", "failed"),), archived.segments_failed),
        ],
    )
    yield counters(
        "borzoi_archive_states",
        "copies of the metadata, and failed attempts",
        [
            ((("outcome", "archived"),), archived.states_archived),
            ((("outcome", "failed"),), archived.states_failed),
        ],
    )
    yield counter("borzoi_archive_bytes", "archived bytes", archived.bytes_archived)
    yield gauge(
        "borzoi_archive_lag_segments", "sealed segments not archived yet", archived.lag_segments
    )
    yield gauge(
        "borzoi_archive_last_success_timestamp",
        "when everything sealed was last archived, in seconds since 1970; 0 before that",
        archived.last_success / 1e6,
        is_least=True,
    )
    yield counter(
        "borzoi_archive_turns_failed",
        "runs in which the archive, or the markers of a partition, could not be used",
        archived.turns_failed,
    )
    yield counter(
        "borzoi_archive_deletions_blocked",
        "how often a segment was kept because it is not archived",
        archived.deletions_blocked,
    )
    yield from _store_families(meters)


def _store_families(meters: Meters) -> Iterator[Family]:
    yield counters(
        "borzoi_objstore_requests",
        "requests to the object store",
        [
            ((("op", op), ("outcome", outcome)), number)
            for (op, outcome), number in meters.requests.items()
        ],
    )
    yield counters(
        "borzoi_objstore_retries",
        "retried requests",
        [
            ((("op", op), ("reason", reason)), number)
            for (op, reason), number in meters.retries.items()
        ],
    )
    yield counters(
        "borzoi_objstore_bytes",
        "bytes sent to and read from the object store",
        [((("op", op),), size) for op, size in meters.bytes.items()],
    )
    yield histogram(
        "borzoi_objstore_request_seconds",
        "time from a request to the answer of the object store",
        [((("op", op),), durations) for op, durations in meters.durations.items()],
    )
    yield gauges(
        "borzoi_objstore_inflight",
        "pending requests to the object store",
        [((("op", op),), number) for op, number in meters.inflight.items()],
    )
