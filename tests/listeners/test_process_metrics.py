"""What one process publishes of itself."""

from tests.support.embedded import EmbeddedServer, with_topic

from borzoi.listeners.admission import Admission
from borzoi.listeners.process_metrics import ProcessSources, process_families
from borzoi.telemetry.durations import Durations, Ongoing
from borzoi.telemetry.exposition import gauge


async def test_a_process_publishes_its_requests_its_memory_and_its_number(
    server: EmbeddedServer,
) -> None:
    syncs, lag = Ongoing(), Durations()
    syncs.observe(5_000)
    syncs.pending = 2
    sources = ProcessSources(
        pool=server.opened.pool,
        admission=Admission(10, 10),
        syncs=syncs,
        loop_lag=lag,
        connections=lambda: {"tcp": 4},
        more=lambda: [gauge("own", "one more", 7)],
        shard=3,
    )
    await with_topic(server)
    families = {one.name: one for one in process_families(server.dispatcher, sources)}
    connections = families["borzoi_connections"].samples[0]
    assert (connections.value, connections.labels) == (4, (("transport", "tcp"),))
    assert families["borzoi_pool_limit_bytes"].samples[0].value == server.opened.pool.limit_bytes
    counts = [one for one in families["borzoi_sync_seconds"].samples if one.suffix == "_count"]
    assert [(one.value, one.labels) for one in counts] == [(1, (("shard", "3"),))]
    depths = {one.labels[0][1]: one.value for one in families["borzoi_queue_depth"].samples}
    assert depths["syncs"] == 2
    assert families["own"].samples[0].value == 7
