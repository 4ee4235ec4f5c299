from tests.support.metrics import Series, samples_in, series

from borzoi.archive.archiver import Counters
from borzoi.objectstore.memory import MemoryStore
from borzoi.objectstore.metering import MeteredStore, Meters
from borzoi.server.archive_metrics import archive_families
from borzoi.telemetry.exposition import openmetrics


def scraped(counters: Counters, meters: Meters) -> dict[Series, float]:
    return samples_in(openmetrics(archive_families(counters, meters)))


async def test_everything_that_is_counted_is_published() -> None:
    counters = Counters(1, 2, 3, 4, 5, 6, 7, 8, last_success=1_700_000_000_500_000)
    meters = Meters()
    store = MeteredStore(MemoryStore(), meters, clock=iter([0, 5_000_000]).__next__)
    await store.put("k", b"123")
    meters.retries["put", "Throttled"] += 2
    found = scraped(counters, meters)
    expected = {
        series("borzoi_archive_segments_total", outcome="archived"): counters.segments_archived,
        series("borzoi_archive_segments_total", outcome="failed"): counters.segments_failed,
        series("borzoi_archive_states_total", outcome="archived"): counters.states_archived,
        series("borzoi_archive_states_total", outcome="failed"): counters.states_failed,
        series("borzoi_archive_bytes_total"): counters.bytes_archived,
        series("borzoi_archive_lag_segments"): counters.lag_segments,
        series("borzoi_archive_turns_failed_total"): counters.turns_failed,
        series("borzoi_archive_deletions_blocked_total"): counters.deletions_blocked,
        series("borzoi_archive_last_success_timestamp"): 1_700_000_000.5,
        series("borzoi_objstore_requests_total", op="put", outcome="ok"): 1,
        series("borzoi_objstore_retries_total", op="put", reason="Throttled"): 2,
        series("borzoi_objstore_bytes_total", op="put"): 3,
        series("borzoi_objstore_inflight", op="put"): 0,
        series("borzoi_objstore_request_seconds_count", op="put"): 1,
        series("borzoi_objstore_request_seconds_sum", op="put"): 0.005,
    }
    assert {name: found[name] for name in expected} == expected
    assert len(set(expected.values())) > 10, "no two of them are mixed up"


def test_an_archiver_that_has_done_nothing_publishes_zeros() -> None:
    found = scraped(Counters(), Meters())
    assert len(found) == 9
    assert set(found.values()) == {0}
