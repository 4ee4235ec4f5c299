import msgspec
from hypothesis import assume, given
from tests.support.wire_strategies import RESPONSES

from borzoi.protocol.commands.system import ClusterMetadata, Stats
from borzoi.protocol.rest import system


@given(RESPONSES[ClusterMetadata])
def test_a_cluster_survives_json(cluster: ClusterMetadata) -> None:
    text = msgspec.json.encode(system.ClusterDocument.of(cluster))
    assert msgspec.json.decode(text, type=system.ClusterDocument).response() == cluster


@given(RESPONSES[Stats])
def test_statistics_survive_json(stats: Stats) -> None:
    ratios = [stats.cpu_usage, stats.total_cpu_usage, *(c.hit_ratio for c in stats.cache_metrics)]
    assume(all(abs(ratio) < float("inf") for ratio in ratios))
    places = {(c.stream_id, c.topic_id, c.partition_id) for c in stats.cache_metrics}
    assume(len(places) == len(stats.cache_metrics))
    text = msgspec.json.encode(system.StatsDocument.of(stats))
    assert msgspec.json.decode(text, type=system.StatsDocument).response() == stats


@given(RESPONSES[Stats])
def test_statistics_print_sizes_and_keep_the_names_that_clients_know(stats: Stats) -> None:
    document = system.StatsDocument.of(stats)
    assert str(document.memory_usage).endswith("B")
    assert document.iggy_server_version == stats.server_version
    assert all(place.count("-") == 2 for place in document.cache_metrics)
